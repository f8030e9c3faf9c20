// The weather agent of test_foreign_runs.py in JavaScript, with the openai SDK of npm, streamed; its tool runs for real.
import OpenAI from "openai";

const client = new OpenAI({ maxRetries: 0 });
const weather = { "Seattle, WA": "50 degrees and raining", "San Francisco, CA": "70 degrees and sunny" };
const messages = [
  { role: "system", content: "You're a helpful assistant." },
  { role: "user", content: process.argv[2] },
];
for (;;) {
  const stream = client.chat.completions.stream({ model: "gpt-4o-mini", messages });
  const { message } = (await stream.finalChatCompletion()).choices[0];
  if (!message.tool_calls?.length) break;
  messages.push({ role: "assistant", content: message.content, tool_calls: message.tool_calls });
  for (const call of message.tool_calls) {
    const { location } = JSON.parse(call.function.arguments);
    messages.push({ role: "tool", tool_call_id: call.id, content: weather[location] });
  }
}
