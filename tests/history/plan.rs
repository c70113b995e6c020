//! What a run is asked for on the command line, and what one seed does with it.

use std::path::PathBuf;
use std::time::Duration;

const USAGE: &str =
    "history [--seeds N] [--seed FIRST] [--seconds S] [--gateways N] [--clients N] [--mutant DB_MUTANT]";
/// From this long on, processes are stopped and answers held back past the lease of 15 s.
const LONG: Duration = Duration::from_secs(25);

#[derive(Debug)]
pub struct Options {
    pub seeds: u64,
    first: u64,
    seconds: u64,
    gateways: usize,
    clients: usize,
    mutant: Option<String>,
    pub list: bool,
    pub list_nothing: bool,
    pub filtered_out: bool,
}

/// One seed.
#[derive(Debug, Clone)]
pub struct Plan {
    pub seed: u64,
    /// How long faults are made.
    pub faulting: Duration,
    pub gateways: usize,
    pub clients: usize,
    /// A guard of the database to take out.
    pub mutant: Option<String>,
}

impl Options {
    pub fn read(args: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options {
            seeds: 1,
            first: 1,
            seconds: 12,
            gateways: 2,
            clients: 12,
            mutant: None,
            list: false,
            list_nothing: false,
            filtered_out: false,
        };
        let mut args = args.peekable();
        let mut ignored = false;
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value\n{USAGE}"));
            let number = |text: String| text.parse::<u64>().map_err(|_| format!("{text} is no number\n{USAGE}"));
            match arg.as_str() {
                "--seeds" => options.seeds = number(value()?)?,
                "--seed" => options.first = number(value()?)?,
                "--seconds" => options.seconds = number(value()?)?,
                "--gateways" => options.gateways = number(value()?)? as usize,
                "--clients" => options.clients = number(value()?)? as usize,
                "--mutant" => options.mutant = Some(value()?),
                "--list" => options.list = true,
                // libtest's own, which cargo may pass to every test binary.
                "--test-threads" | "--format" | "--color" | "--skip" | "-Z" => drop(value()?),
                "--ignored" => (options.filtered_out, ignored) = (true, true),
                flag if flag.starts_with('-') => {}
                filter => options.filtered_out |= !"history".contains(filter),
            }
        }
        // As nextest asks: the names of the tests that are ignored, of which there are none.
        options.list_nothing = options.list && ignored;
        Ok(options)
    }

    pub fn seeds(&self) -> std::ops::Range<u64> {
        self.first..self.first + self.seeds
    }

    pub fn plan(&self, seed: u64) -> Plan {
        Plan {
            seed,
            faulting: Duration::from_secs(self.seconds),
            gateways: self.gateways.max(2),
            clients: self.clients,
            mutant: self.mutant.clone(),
        }
    }
}

impl Plan {
    /// Whether there is time for what outlasts a lease.
    pub fn is_long(&self) -> bool {
        self.faulting >= LONG
    }

    /// Where the history is written.
    pub fn history_file(&self) -> PathBuf {
        let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
        let target = target.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target"));
        target.join("history").join(format!("{}.jsonl", self.seed))
    }
}
