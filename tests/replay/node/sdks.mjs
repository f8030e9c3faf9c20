// One small agent for each SDK of npm: a tool loop, then a streamed answer. What each saw is printed as one line of JSON.
// Each loads its own SDK only.
//   node sdks.mjs AGENT QUESTION
const [agent, question] = process.argv.slice(2);
const schema = { type: "object", properties: { order: { type: "string" } }, required: ["order"] };

// A tool of the program's own; under `serve`, where it is asked for by name, the recorded one.
async function track(given) {
  const served = process.env.FREEZEFRAME_TOOLS_URL;
  if (!served || !process.env.TOOLS_ARE_SERVED) return { order: given.order, place: "Lyon" };
  const answer = await fetch(`${served}/track`, { method: "POST", body: JSON.stringify(given) });
  return (await answer.json()).result;
}

async function chat() {
  const { default: OpenAI } = await import("openai");
  const client = new OpenAI();
  const tools = [{ type: "function", function: { name: "track", description: "Find it.", parameters: schema } }];
  const messages = [{ role: "user", content: question }];
  for (;;) {
    const { message } = (await client.chat.completions.create({ model: "gpt-4o", messages, tools })).choices[0];
    messages.push(message);
    if (!message.tool_calls) break;
    for (const call of message.tool_calls) {
      const result = await track(JSON.parse(call.function.arguments));
      messages.push({ role: "tool", tool_call_id: call.id, content: JSON.stringify(result) });
    }
  }
  messages.push({ role: "user", content: "Sum it up." });
  const pieces = [];
  for await (const part of await client.chat.completions.create({ model: "gpt-4o", messages, stream: true })) {
    pieces.push(part.choices[0]?.delta?.content ?? "");
  }
  const { data } = await client.embeddings.create({ model: "text-embedding-3-small", input: question, encoding_format: "float" });
  return { said: messages.at(-2).content, pieces, vector: data[0].embedding };
}

async function responses() {
  const { default: OpenAI } = await import("openai");
  const client = new OpenAI();
  const tools = [{ type: "function", name: "track", description: "Find it.", parameters: schema, strict: false }];
  const input = [{ role: "user", content: question }];
  let answer = await client.responses.create({ model: "gpt-4o", input, tools });
  const pieces = [];
  for (const call of answer.output.filter((item) => item.type === "function_call")) {
    const result = await track(JSON.parse(call.arguments));
    input.push(call, { type: "function_call_output", call_id: call.call_id, output: JSON.stringify(result) });
  }
  for await (const event of await client.responses.create({ model: "gpt-4o", input, tools, stream: true })) {
    if (event.type === "response.output_text.delta") pieces.push(event.delta);
  }
  return { pieces };
}

async function messages() {
  const { default: Anthropic } = await import("@anthropic-ai/sdk");
  const client = new Anthropic();
  const tools = [{ name: "track", description: "Find it.", input_schema: schema }];
  const said = [{ role: "user", content: question }];
  const model = "claude-haiku-4-5";
  for (;;) {
    const answer = await client.messages.create({ model, max_tokens: 99, messages: said, tools });
    said.push({ role: "assistant", content: answer.content });
    const calls = answer.content.filter((part) => part.type === "tool_use");
    if (!calls.length) break;
    const results = [];
    for (const call of calls) {
      results.push({ type: "tool_result", tool_use_id: call.id, content: JSON.stringify(await track(call.input)) });
    }
    said.push({ role: "user", content: results });
  }
  said.push({ role: "user", content: "Sum it up." });
  const pieces = [];
  const stream = client.messages.stream({ model, max_tokens: 99, messages: said });
  stream.on("text", (text) => pieces.push(text));
  return { said: said.at(-2).content, pieces, whole: await stream.finalText() };
}

async function vercel(model) {
  const { generateText, stepCountIs, streamText, tool } = await import("ai");
  const { z } = await import("zod");
  const telemetry = await traced();
  const tools = { track: tool({ description: "Find it.", inputSchema: z.object({ order: z.string() }), execute: track }) };
  const settings = { model, tools, stopWhen: stepCountIs(4), experimental_telemetry: { isEnabled: Boolean(telemetry) } };
  const { text } = await generateText({ ...settings, prompt: question });
  const pieces = [];
  const stream = streamText({ ...settings, messages: [{ role: "user", content: `${question} ${text} Again?` }] });
  for await (const piece of stream.textStream) pieces.push(piece);
  await telemetry?.shutdown();
  return { text, pieces };
}

// The program's own OpenTelemetry, if it is led anywhere.
async function traced() {
  if (!process.env.OTEL_EXPORTER_OTLP_ENDPOINT) return null;
  const { NodeTracerProvider, BatchSpanProcessor } = await import("@opentelemetry/sdk-trace-node");
  const { OTLPTraceExporter } = await import("@opentelemetry/exporter-trace-otlp-proto");
  const provider = new NodeTracerProvider({ spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())] });
  provider.register();
  return provider;
}

async function mcp(transport) {
  const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
  const client = new Client({ name: "node", version: "1" });
  await client.connect(transport);
  const listed = (await client.listTools()).tools.map((item) => item.name);
  const [{ name }] = (await client.listPrompts()).prompts;
  const [message] = (await client.getPrompt({ name, arguments: { name: question } })).messages;
  const [resource] = (await client.readResource({ uri: `shop://orders/${question}` })).contents;
  const answer = await client.callTool({ name: "get_order", arguments: { order_id: question } });
  await client.close();
  return { listed, prompt: message.content.text, resource: resource.text, content: answer.content };
}

async function openai() {
  const { createOpenAI } = await import("@ai-sdk/openai");
  return createOpenAI({ baseURL: process.env.OPENAI_BASE_URL });
}

const agents = {
  chat,
  responses,
  messages,
  "ai-openai": async () => vercel((await openai()).chat("gpt-4o")),
  "ai-responses": async () => vercel((await openai()).responses("gpt-4o")),
  "ai-anthropic": async () => {
    const { createAnthropic } = await import("@ai-sdk/anthropic");
    return vercel(createAnthropic({ baseURL: `${process.env.ANTHROPIC_BASE_URL}/v1` })("claude-haiku-4-5"));
  },
  // What starts its MCP server, wrapped.
  "mcp-stdio": async () => {
    const { StdioClientTransport } = await import("@modelcontextprotocol/sdk/client/stdio.js");
    const [command, ...args] = JSON.parse(process.env.MCP_SERVER);
    return mcp(new StdioClientTransport({ command, args, env: process.env }));
  },
  "mcp-http": async () => {
    const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
    return mcp(new StreamableHTTPClientTransport(new URL(process.env.FREEZEFRAME_MCP_URL)));
  },
};
console.log(JSON.stringify(await agents[agent]()));
