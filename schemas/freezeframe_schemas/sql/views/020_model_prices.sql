-- The price of each model seen: that of the longest prefix in `prices`, from each date on.
CREATE OR REPLACE VIEW {db}.model_prices {on_cluster} AS
SELECT
    model, -- Model that was seen
    valid_from, -- Valid from this time on
    input_usd, -- US dollars per million input tokens
    output_usd, -- US dollars per million output tokens
    cache_read_usd, -- US dollars per million input tokens read from the cache
    cache_write_usd, -- US dollars per million input tokens written to the cache
    prefix -- Start of the model name that the price is for
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
