//! The promises of DESIGN 1, each through HTTP on a real Postgres, against providers that are real servers.

mod async_jobs;
mod bad_input;
mod callbacks;
mod circuit;
mod cli;
mod command;
mod committed_first;
mod crash;
mod database_away;
mod double_click;
mod failover;
mod guards;
mod next_target;
mod owners;
mod reconcile;
mod reverse_finish;
mod rolling;
mod same_intent;
mod settings;
mod sixteen;
mod statements;
mod streams;
mod support;
mod tidy;
mod unknown_outcome;
mod unknown_shapes;
