-- What each attempt has cost, and what of the request it left out.

-- Money is whole: 10^-12 of `cost_currency`, computed once from the attempt's own usage by the price that held then.
-- `price` says which that was (`settings`, or the day and the page it was read), so that a later price rewrites nothing.
-- NULL is not known, never zero. `dropped`: the members of the request that the route let fall at this target
-- (`drop_unsupported`), with commas between; NULL where all of it went out.
ALTER TABLE attempts
    ADD COLUMN cache_write_tokens bigint,
    ADD COLUMN reasoning_tokens   bigint,
    ADD COLUMN cost_pico          bigint,
    ADD COLUMN cost_currency      text,
    ADD COLUMN price              text,
    ADD COLUMN dropped            text,
    ADD CONSTRAINT attempts_cost_is_no_debt CHECK (cost_pico >= 0),
    ADD CONSTRAINT attempts_cost_names_its_price
        CHECK ((cost_pico IS NULL) = (cost_currency IS NULL) AND (cost_pico IS NULL) = (price IS NULL)),
    ADD CONSTRAINT attempts_dropped_names_something CHECK (dropped <> '');

ALTER TABLE races
    ADD COLUMN cost_pico     bigint,
    ADD COLUMN cost_currency text,
    ADD CONSTRAINT races_cost_has_a_currency CHECK ((cost_pico IS NULL) = (cost_currency IS NULL));
