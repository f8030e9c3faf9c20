// One small agent for each HTTP client of Node, and for each SDK and framework that sdks.mjs has not: a tool loop, then a
// streamed answer. The tool's result is random. What each saw is printed as one line of JSON.
//   node clients.mjs CLIENT QUESTION
import { appendFileSync } from "node:fs";
import http from "node:http";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";

const [client, question] = process.argv.slice(2);
const parameters = { type: "object", properties: { order: { type: "string" } }, required: ["order"] };
const described = { name: "track", description: "Find it.", parameters };
const tools = [{ type: "function", function: described }];
const base = process.env.OPENAI_BASE_URL;
const chat = `${base}/chat/completions`;

// Under `serve`, the recorded result.
async function track(given) {
  const served = process.env.FREEZEFRAME_TOOLS_URL;
  if (served) {
    const answer = await fetch(`${served}/track`, { method: "POST", body: JSON.stringify(given) });
    return (await answer.json()).result;
  }
  if (process.env.TOOLS_RUN) appendFileSync(process.env.TOOLS_RUN, `${JSON.stringify(given)}\n`);
  return { order: given.order, place: `gate ${Math.random()}` };
}

// An agent on what posts: `whole` returns the answer's object, `lines` the lines of its body.
async function loop(whole, lines) {
  const messages = [{ role: "user", content: question }];
  for (;;) {
    const { message } = (await whole({ model: "gpt-4o", messages, tools })).choices[0];
    messages.push(message);
    if (!message.tool_calls) break;
    for (const call of message.tool_calls) {
      const result = await track(JSON.parse(call.function.arguments));
      messages.push({ role: "tool", tool_call_id: call.id, content: JSON.stringify(result) });
    }
  }
  messages.push({ role: "user", content: "Sum it up." });
  const pieces = [];
  for await (const line of await lines({ model: "gpt-4o", messages, stream: true })) {
    if (line.startsWith("data: {")) pieces.push(JSON.parse(line.slice(6)).choices[0]?.delta?.content ?? "");
  }
  return { said: messages.at(-2).content, pieces };
}

const headers = { "content-type": "application/json", authorization: "Bearer sk-test" };
const split = (stream) => createInterface({ input: stream });

async function fetched(fetch) {
  const post = (body) => fetch(chat, { method: "POST", headers, body: JSON.stringify(body) });
  return loop(
    async (body) => (await post(body)).json(),
    async (body) => {
      const answer = await post(body);
      return split(answer.body.getReader ? Readable.fromWeb(answer.body) : answer.body);
    },
  );
}

async function nodeHttp() {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  const post = (body) =>
    new Promise((resolve, reject) => {
      const request = http.request(chat, { method: "POST", headers, agent }, resolve);
      request.on("error", reject);
      request.end(JSON.stringify(body));
    });
  const found = await loop(
    async (body) => {
      let text = "";
      for await (const piece of (await post(body)).setEncoding("utf8")) text += piece;
      return JSON.parse(text);
    },
    async (body) => split(await post(body)),
  );
  agent.destroy();
  return found;
}

async function axios() {
  const { default: axios } = await import("axios");
  const post = async (body, responseType) => (await axios.post(chat, body, { headers, responseType })).data;
  return loop((body) => post(body, "json"), async (body) => split(await post(body, "stream")));
}

async function got() {
  const { default: got } = await import("got");
  return loop(
    (body) => got.post(chat, { headers, json: body }).json(),
    async (body) => split(got.stream.post(chat, { headers, json: body })),
  );
}

async function undici() {
  const { Pool } = await import("undici");
  const { origin, pathname } = new URL(chat);
  const pool = new Pool(origin, { connections: 1 });
  const post = async (body) => (await pool.request({ path: pathname, method: "POST", headers, body: JSON.stringify(body) })).body;
  const found = await loop(async (body) => (await post(body)).json(), async (body) => split(await post(body)));
  await pool.close();
  return found;
}

async function gemini() {
  const { GoogleGenAI } = await import("@google/genai");
  const ai = new GoogleGenAI({ apiKey: "k", httpOptions: { baseUrl: process.env.GOOGLE_GEMINI_BASE_URL } });
  const contents = [{ role: "user", parts: [{ text: question }] }];
  const config = { tools: [{ functionDeclarations: [{ ...described, parameters: undefined, parametersJsonSchema: parameters }] }] };
  let answer = await ai.models.generateContent({ model: "gemini-2.5-flash", contents, config });
  while (answer.functionCalls?.length) {
    contents.push(answer.candidates[0].content);
    const parts = [];
    for (const call of answer.functionCalls) {
      parts.push({ functionResponse: { name: call.name, id: call.id, response: { result: await track(call.args) } } });
    }
    contents.push({ role: "user", parts });
    answer = await ai.models.generateContent({ model: "gemini-2.5-flash", contents, config });
  }
  contents.push(answer.candidates[0].content, { role: "user", parts: [{ text: "Sum it up." }] });
  const pieces = [];
  for await (const piece of await ai.models.generateContentStream({ model: "gemini-2.5-flash", contents })) pieces.push(piece.text);
  return { said: answer.text, pieces };
}

async function langchain() {
  const { ChatOpenAI } = await import("@langchain/openai");
  const { HumanMessage, ToolMessage } = await import("@langchain/core/messages");
  const model = new ChatOpenAI({ model: "gpt-4o", configuration: { baseURL: base }, maxRetries: 0 });
  const messages = [new HumanMessage(question)];
  for (;;) {
    const answer = await model.bindTools(tools).invoke(messages);
    messages.push(answer);
    if (!answer.tool_calls?.length) break;
    for (const call of answer.tool_calls) {
      messages.push(new ToolMessage({ tool_call_id: call.id, content: JSON.stringify(await track(call.args)) }));
    }
  }
  messages.push(new HumanMessage("Sum it up."));
  const pieces = [];
  for await (const piece of await model.stream(messages)) pieces.push(piece.content);
  return { said: messages.at(-2).content, pieces };
}

async function agents(kind) {
  const sdk = await import("@openai/agents");
  const { z } = await import("zod");
  sdk.setTracingDisabled(true);
  sdk.setOpenAIAPI(kind);
  const execute = async (given) => JSON.stringify(await track(given));
  const asks = sdk.tool({ name: "track", description: "Find it.", parameters: z.object({ order: z.string() }), execute });
  const agent = new sdk.Agent({ name: "finder", instructions: "Find orders.", model: "gpt-4o", tools: [asks] });
  const whole = await sdk.run(agent, question);
  const streamed = await sdk.run(new sdk.Agent({ name: "summer", model: "gpt-4o" }), "Sum it up.", { stream: true });
  const pieces = [];
  for await (const piece of streamed.toTextStream()) pieces.push(piece);
  await streamed.completed;
  return { said: whole.finalOutput, pieces };
}

async function ollama() {
  const { Ollama } = await import("ollama");
  const ai = new Ollama({ host: process.env.OLLAMA_HOST });
  const messages = [{ role: "user", content: question }];
  for (;;) {
    const { message } = await ai.chat({ model: "llama3.2", messages, tools });
    messages.push(message);
    if (!message.tool_calls?.length) break;
    for (const call of message.tool_calls) {
      const content = JSON.stringify(await track(call.function.arguments));
      messages.push({ role: "tool", tool_name: call.function.name, content });
    }
  }
  messages.push({ role: "user", content: "Sum it up." });
  const pieces = [];
  for await (const piece of await ai.chat({ model: "llama3.2", messages, stream: true })) pieces.push(piece.message.content);
  return { said: messages.at(-2).content, pieces };
}

async function cohere() {
  const { CohereClientV2 } = await import("cohere-ai");
  const ai = new CohereClientV2({ token: "k", environment: process.env.CO_API_URL });
  const messages = [{ role: "user", content: question }];
  for (;;) {
    const { message } = await ai.chat({ model: "command-a-03-2025", messages, tools });
    messages.push({ role: "assistant", content: message.content, toolCalls: message.toolCalls });
    if (!message.toolCalls?.length) break;
    for (const call of message.toolCalls) {
      const content = JSON.stringify(await track(JSON.parse(call.function.arguments)));
      messages.push({ role: "tool", toolCallId: call.id, content });
    }
  }
  messages.push({ role: "user", content: "Sum it up." });
  const pieces = [];
  for await (const event of await ai.chatStream({ model: "command-a-03-2025", messages })) {
    if (event.type === "content-delta") pieces.push(event.delta.message.content.text);
  }
  return { said: messages.at(-2).content, pieces };
}

const clients = {
  fetch: () => fetched(fetch),
  "node:http": nodeHttp,
  axios,
  got,
  undici,
  "node-fetch": async () => fetched((await import("node-fetch")).default),
  gemini,
  langchain,
  "agents-chat": () => agents("chat_completions"),
  "agents-responses": () => agents("responses"),
  ollama,
  cohere,
};
console.log(JSON.stringify(await clients[client]()));
