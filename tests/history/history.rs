//! The history: one JSON line per event. `invoke` and its end (`ok`, `fail`, or `info` where nobody knows) share an
//! operation's number; providers and the fault controller note what they did as `ok` without an `invoke`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Invoke,
    Ok,
    Fail,
    Info,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Kind::Invoke => "invoke",
            Kind::Ok => "ok",
            Kind::Fail => "fail",
            Kind::Info => "info",
        }
    }
}

#[derive(Debug, Clone)]
pub struct Event {
    /// Nanoseconds since the run began, by a clock that never goes back.
    pub at: u64,
    /// Microseconds since 1970, to compare with the database's times on the same machine.
    pub wall: i64,
    pub kind: Kind,
    pub process: String,
    pub op: u64,
    pub what: &'static str,
    pub data: Value,
}

impl Event {
    pub fn text(&self, name: &str) -> &str {
        self.data[name].as_str().unwrap_or_default()
    }

    pub fn is(&self, name: &str) -> bool {
        self.data[name] == Value::Bool(true)
    }
}

/// An operation that has begun.
#[derive(Debug)]
pub struct Op {
    number: u64,
    process: String,
    what: &'static str,
}

#[derive(Debug)]
pub struct History {
    began: Instant,
    next: AtomicU64,
    kept: Mutex<(BufWriter<File>, Vec<Event>)>,
}

impl History {
    pub fn create(path: &Path) -> std::io::Result<Arc<History>> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let file = BufWriter::new(File::create(path)?);
        Ok(Arc::new(History { began: Instant::now(), next: AtomicU64::new(1), kept: Mutex::new((file, Vec::new())) }))
    }

    pub fn invoke(&self, process: &str, what: &'static str, args: Value) -> Op {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.write(Kind::Invoke, process, number, what, args);
        Op { number, process: process.to_owned(), what }
    }

    pub fn end(&self, op: &Op, kind: Kind, result: Value) {
        self.write(kind, &op.process, op.number, op.what, result);
    }

    /// Something that was done and has no answer.
    pub fn note(&self, process: &str, what: &'static str, data: Value) {
        self.write(Kind::Ok, process, 0, what, data);
    }

    fn write(&self, kind: Kind, process: &str, op: u64, what: &'static str, data: Value) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let at = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros() as i64);
        let line = json!({ "at": at, "wall": wall, "type": kind.as_str(), "process": process, "op": op, "f": what, "value": data });
        // A full disk costs the file, not the run: the checker reads what is kept here.
        let _ = writeln!(kept.0, "{line}");
        kept.1.push(Event { at, wall, kind, process: process.to_owned(), op, what, data });
    }

    /// Everything so far; the file is complete up to here.
    pub fn events(&self) -> Vec<Event> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = kept.0.flush();
        kept.1.clone()
    }
}
