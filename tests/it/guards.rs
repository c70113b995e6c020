//! The database says it again: what must never happen is refused by a named constraint or by the statement's own
//! guard, whatever the code above it does. Asked of the store itself, on a real Postgres.

mod clocks;
mod constraints;
mod days;
mod ground;
mod races;
mod rechecks;
mod starts;
mod together;
mod transitions;
