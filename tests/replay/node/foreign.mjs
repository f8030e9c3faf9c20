// Agents on the SDKs of npm that ask what a run of another instrumentation asked first, and then do what the model says.
// They know nothing of the run but its first question; tools are asked of the server, by name and arguments.
//   node foreign.mjs < jobs.json   prints a list of what each job came to: {said} or {error}
import { readFileSync } from "node:fs";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

const MOST_TURNS = 12;

// The recorded result of a tool; of a job that is spoiled, another one.
async function tool(job, name, given) {
  const asked = { method: "POST", body: typeof given === "string" ? given : JSON.stringify(given) };
  const { result, error } = await (await fetch(`${job.env.FREEZEFRAME_TOOLS_URL}/${name}`, asked)).json();
  const told = error ? error.message : typeof result === "string" ? result : JSON.stringify(result);
  return job.spoiled ? `not ${told}` : told;
}

async function chat(job) {
  const { completions } = new OpenAI({ baseURL: job.env.OPENAI_BASE_URL, apiKey: "x", maxRetries: 0 }).chat;
  const messages = job.messages.map(({ role, text }) => ({ role, content: text }));
  if (job.system) messages.unshift({ role: "system", content: job.system });
  for (let turn = 0; turn < MOST_TURNS; turn++) {
    const asked = { model: "m", messages };
    const answer = job.streamed ? await completions.stream(asked).finalChatCompletion() : await completions.create(asked);
    const { content, tool_calls } = answer.choices[0].message;
    if (!tool_calls?.length) return content ?? "";
    messages.push({ role: "assistant", content, tool_calls });
    for (const call of tool_calls) {
      const told = await tool(job, call.function.name, call.function.arguments);
      messages.push({ role: "tool", tool_call_id: call.id, content: told });
    }
  }
}

async function resp(job) {
  const { responses } = new OpenAI({ baseURL: job.env.OPENAI_BASE_URL, apiKey: "x", maxRetries: 0 });
  const input = job.messages.map(({ role, text }) => ({ role, content: text }));
  for (let turn = 0; turn < MOST_TURNS; turn++) {
    const asked = { model: "m", input, ...(job.system && { instructions: job.system }) };
    const answer = job.streamed ? await responses.stream(asked).finalResponse() : await responses.create(asked);
    const calls = answer.output.filter((item) => item.type === "function_call");
    if (!calls.length) return answer.output_text;
    input.push(...answer.output.map(({ parsed_arguments, ...item }) => item));
    for (const call of calls) {
      const output = await tool(job, call.name, call.arguments);
      input.push({ type: "function_call_output", call_id: call.call_id, output });
    }
  }
}

async function msg(job) {
  const client = new Anthropic({ baseURL: job.env.ANTHROPIC_BASE_URL, apiKey: "x", maxRetries: 0 });
  const messages = job.messages.map(({ role, text }) => ({ role, content: text }));
  for (let turn = 0; turn < MOST_TURNS; turn++) {
    const asked = { model: "m", max_tokens: 99, messages, ...(job.system && { system: job.system }) };
    const { content } = await (job.streamed ? client.messages.stream(asked).finalMessage() : client.messages.create(asked));
    messages.push({ role: "assistant", content });
    const results = [];
    for (const block of content.filter((block) => block.type === "tool_use")) {
      results.push({ type: "tool_result", tool_use_id: block.id, content: await tool(job, block.name, block.input) });
    }
    if (!results.length) return content.filter((block) => block.type === "text").map((block) => block.text).join("");
    messages.push({ role: "user", content: results });
  }
}

// What a framework wrote that words its history in its own way (smolagents): each question as it is in the spans.
async function told(job) {
  const { completions } = new OpenAI({ baseURL: job.env.OPENAI_BASE_URL, apiKey: "x", maxRetries: 0 }).chat;
  let said;
  for (const { system, messages } of job.questions) {
    const all = [{ role: "system", content: system }, ...messages.map(({ role, text }) => ({ role, content: text }))];
    const asked = { model: "m", messages: all };
    const answer = job.streamed ? await completions.stream(asked).finalChatCompletion() : await completions.create(asked);
    const { content, tool_calls } = answer.choices[0].message;
    for (const call of tool_calls ?? []) await tool(job, call.function.name, call.function.arguments);
    said = content ?? said;
  }
  return said;
}

const agents = { chat, resp, msg, told };
const came = [];
for (const job of JSON.parse(readFileSync(0, "utf8"))) {
  came.push(await (agents[job.api] ?? chat)(job).then((said) => ({ said }), (error) => ({ error: String(error) })));
}
console.log(JSON.stringify(came));
