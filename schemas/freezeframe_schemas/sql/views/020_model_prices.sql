-- The price of each model that was met: of the longest prefix in `prices`, from each date on.
CREATE OR REPLACE VIEW {db}.model_prices {on_cluster} AS
SELECT model, valid_from, input_usd, output_usd, cache_read_usd, cache_write_usd, prefix
FROM (
    SELECT m.model AS model, p.*, max(length(p.prefix)) OVER (PARTITION BY m.model) AS longest
    FROM (
        SELECT DISTINCT toString(if(response_model != '', response_model, request_model)) AS model
        FROM {db}.span_rows WHERE model != ''
    ) AS m
    CROSS JOIN (SELECT * FROM {db}.prices FINAL) AS p
    WHERE startsWith(m.model, p.prefix)
)
WHERE length(prefix) = longest
COMMENT 'US dollars per million tokens, by model and date';
