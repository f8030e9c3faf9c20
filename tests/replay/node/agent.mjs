// The agent of test_wire_server.py in JavaScript, with the openai SDK of npm: a tool loop, then a streamed summary.
import OpenAI from "openai";

const client = new OpenAI({ maxRetries: 2 });
const tools = [{ type: "function", function: { name: "ship", parameters: { type: "object", properties: {} } } }];
const ship = (order) => ({ shipped: order });

const messages = [{ role: "user", content: process.argv[2] ?? "Ship AC-1." }];
for (;;) {
  const { message } = (await client.chat.completions.create({ model: "gpt-4o", messages, tools })).choices[0];
  if (!message.tool_calls) {
    messages.push({ role: "assistant", content: message.content });
    break;
  }
  messages.push({ role: "assistant", tool_calls: message.tool_calls });
  for (const call of message.tool_calls) {
    const result = ship(JSON.parse(call.function.arguments).order_id);
    messages.push({ role: "tool", tool_call_id: call.id, content: JSON.stringify(result) });
  }
}
messages.push({ role: "user", content: "Sum it up." });
const chunks = [];
for await (const chunk of await client.chat.completions.create({ model: "gpt-4o", messages, stream: true })) {
  chunks.push(chunk.choices[0].delta.content ?? "");
}
console.log(JSON.stringify({ said: messages.at(-2).content, chunks }));
