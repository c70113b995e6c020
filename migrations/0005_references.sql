-- Work that goes on at a provider without us, under an id that the provider gave it (`lookup = "background"`).

-- The provider's own id of the attempt's work, written down as soon as it is heard and before anything goes to the
-- client: after a crash it is all there is to ask by, or to cancel by. No transition reads it.
ALTER TABLE attempts ADD COLUMN reference text
    CONSTRAINT attempts_reference_is_short CHECK (octet_length(reference) BETWEEN 1 AND 512);
