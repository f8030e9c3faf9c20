// One order a line on stdin, one JSON answer a line on stdout, by @clickhouse/client as it comes.
import { createInterface } from 'node:readline'
import { createClient } from '@clickhouse/client'

const [url, username, password] = process.argv.slice(2)
const client = createClient({
  url, username, password, database: 'freezeframe', compression: { response: true, request: true },
})

const actions = {
  async rows({ sql, parameters }) {
    const answer = await client.query({ query: sql, query_params: parameters, format: 'JSONCompact' })
    return (await answer.json()).data
  },
  async stream({ sql }) {
    const answer = await client.query({ query: sql, format: 'JSONEachRow' })
    let rows = 0
    for await (const piece of answer.stream()) rows += piece.length
    return rows
  },
  async insert({ table, rows }) {
    await client.insert({ table, values: rows, format: 'JSONEachRow' })
    return true
  },
  async abort({ sql }) {
    const controller = new AbortController()
    setTimeout(() => controller.abort(), 300)
    await client.query({ query: sql, format: 'JSON', abort_signal: controller.signal })
  },
  async ping() {
    return (await client.ping()).success
  },
}

for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line)
  let answer
  try {
    answer = { value: await actions[order.action](order) }
  } catch (error) {
    answer = { code: Number(error.code ?? 0), error: String(error.message) }
  }
  console.log(JSON.stringify(answer))
}
await client.close()
