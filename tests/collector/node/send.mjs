// Sends one small trace through one of Node's own OTLP exporters: node send.mjs http|proto|grpc URL gzip|none
import { OTLPTraceExporter as Grpc } from "@opentelemetry/exporter-trace-otlp-grpc";
import { OTLPTraceExporter as Json } from "@opentelemetry/exporter-trace-otlp-http";
import { OTLPTraceExporter as Proto } from "@opentelemetry/exporter-trace-otlp-proto";
import { SpanKind, SpanStatusCode, context, trace } from "@opentelemetry/api";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BasicTracerProvider, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";

const [kind, url, compression] = process.argv.slice(2);
const exporter = new { http: Json, proto: Proto, grpc: Grpc }[kind]({ url, compression });
const provider = new BasicTracerProvider({
  resource: resourceFromAttributes({ "service.name": "node-agent" }),
  spanProcessors: [new SimpleSpanProcessor(exporter)],
});
const tracer = provider.getTracer("weather", "1.0.0");
const parent = tracer.startSpan("answer", { kind: SpanKind.SERVER });
const child = tracer.startSpan("chat gpt-4o-mini", { kind: SpanKind.CLIENT }, trace.setSpan(context.active(), parent));
child.setAttributes({
  "gen_ai.operation.name": "chat",
  "gen_ai.usage.input_tokens": 40,
  "gen_ai.request.temperature": 0.5,
  "gen_ai.request.stream": true,
  "gen_ai.response.finish_reasons": ["stop"],
  said: "Grüße 🌦️ ".repeat(200),
});
child.addEvent("first token", { offset: 12 });
child.setStatus({ code: SpanStatusCode.ERROR, message: "cut short" });
child.end();
parent.end();
await provider.shutdown();
