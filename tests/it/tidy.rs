//! The house rules of STYLE.md, executed: direction, words that a layer must not say, sizes, names.
//!
//! Read from the sources with comments and the insides of string literals blanked, so that no rule trips over prose.
//! What is decided here and not obvious: `domain` may derive `sqlx::Type` on its ids and draw a fresh one (an id is a
//! name, not a decision), and `cli` may use `http::view`, the one place that says how a job looks as JSON.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A source file: its path from the top, its text, the same text with comments and literals blanked, the literals.
struct Source {
    path: String,
    text: String,
    code: String,
    literals: Vec<String>,
}

impl Source {
    fn is_under(&self, places: &[&str]) -> bool {
        places.iter().any(|place| {
            let rest = self.path.strip_prefix(place);
            rest.is_some_and(|rest| place.ends_with('/') || rest.starts_with('/') || rest.starts_with(".rs"))
        })
    }

    /// The line, counted from one, on which `offset` of the code stands.
    fn line(&self, offset: usize) -> usize {
        self.code[..offset].matches('\n').count() + 1
    }
}

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn sources() -> Vec<Source> {
    let mut found = Vec::new();
    for place in ["src", "providers", "contracts", "tests"] {
        collect(&top().join(place), &mut found);
    }
    assert!(found.len() > 80, "only {} sources found: this test looks in the wrong place", found.len());
    found
}

fn collect(folder: &Path, found: &mut Vec<Source>) {
    for entry in std::fs::read_dir(folder).expect("a source folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = std::fs::read_to_string(&path).expect("a source file");
            let (code, literals) = blank(&text);
            let path = path.strip_prefix(top()).expect("under the top").display().to_string();
            found.push(Source { path, text, code, literals });
        }
    }
}

/// Blanks comments and the insides of literals, byte for byte, so that offsets and lines stay.
fn blank(text: &str) -> (String, Vec<String>) {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut literals = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text.as_bytes()[at..];
        let end = if rest.starts_with(b"//") {
            at + rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len())
        } else if rest.starts_with(b"/*") {
            at + text[at..].find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(length) = literal(bytes, at) {
            literals.push(text[at..at + length].to_owned());
            at + length
        } else {
            at += 1;
            continue;
        };
        code[at..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        at = end;
    }
    (String::from_utf8(code).expect("blanked whole characters"), literals)
}

/// The length of the string or character literal that begins at `at`, if one does.
fn literal(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = &bytes[at..];
    let in_word = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    match rest[0] {
        b'r' if !in_word || bytes[at - 1] == b'b' => {
            let hashes = rest[1..].iter().take_while(|b| **b == b'#').count();
            let end: Vec<u8> = [b"\"", "#".repeat(hashes).as_bytes()].concat();
            let opened = rest.get(1 + hashes) == Some(&b'"');
            let inside = rest.get(2 + hashes..)?;
            let length = inside.windows(end.len()).position(|w| w == end)?;
            opened.then_some(2 + hashes + length + end.len())
        }
        b'"' => closing(rest, b'"'),
        // `'a'` and `'\n'` are literals, `'a` is a lifetime.
        b'\'' if rest.get(1) == Some(&b'\\') => closing(rest, b'\''),
        b'\'' => {
            let width = std::str::from_utf8(&rest[1..rest.len().min(5)]).map_or_else(|e| e.valid_up_to(), str::len);
            let first = std::str::from_utf8(&rest[1..1 + width]).ok()?.chars().next()?.len_utf8();
            (rest.get(1 + first) == Some(&b'\'')).then_some(2 + first)
        }
        _ => None,
    }
}

fn closing(rest: &[u8], quote: u8) -> Option<usize> {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return Some(at + 1),
            _ => at += 1,
        }
    }
    None
}

/// Where `word` stands as a whole word, or as the beginning of a path.
fn occurrences<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = code[..*at].chars().next_back().is_some_and(is_part);
        let after = code[*at + word.len()..].chars().next().is_some_and(is_part);
        !before && (!after || !word.ends_with(is_part))
    })
}

fn assert_none(rule: &str, offenders: Vec<String>) {
    assert!(offenders.is_empty(), "{rule}:\n  {}", offenders.join("\n  "));
}

/// A layer, and the words that it must not say.
struct Ban {
    rule: &'static str,
    under: &'static [&'static str],
    except: &'static [&'static str],
    words: &'static [&'static str],
}

const BANS: [Ban; 8] = [
    Ban {
        rule: "`domain` does no I/O, reads no clock and draws nothing",
        under: &["src/domain"],
        except: &[],
        words: &[
            "tokio",
            "axum",
            "hyper",
            "reqwest",
            "http",
            "std::fs",
            "std::net",
            "std::env",
            "std::process",
            "Instant",
            "SystemTime",
            "now_utc",
            "rand",
            "PgPool",
            "query",
        ],
    },
    Ban {
        rule: "`domain` draws ids only in ids.rs",
        under: &["src/domain"],
        except: &["src/domain/ids"],
        words: &["sqlx", "now_v7", "Uuid"],
    },
    Ban {
        rule: "only `store` talks to the database",
        under: &["src"],
        except: &["src/store", "src/domain/ids", "src/local/postgres", "src/config/check"],
        words: &["sqlx"],
    },
    Ban {
        rule: "`engine` knows no HTTP",
        under: &["src/engine"],
        except: &[],
        words: &["StatusCode", "axum", "hyper", "http"],
    },
    Ban {
        rule: "only `http` knows status codes",
        under: &["src"],
        except: &["src/http", "src/local/sim"],
        words: &["StatusCode"],
    },
    Ban {
        rule: "`providers` never sees a job",
        under: &["providers"],
        except: &[],
        words: &["sqlx", "axum", "interlock", "job", "jobs", "Job", "JobId", "job_id"],
    },
    Ban {
        rule: "`contracts` never sees the database",
        under: &["contracts"],
        except: &[],
        words: &["sqlx", "axum", "reqwest", "interlock", "JobId"],
    },
    Ban {
        rule: "only providers/transport uses the HTTP client",
        under: &["src", "providers", "contracts"],
        except: &["providers/transport"],
        words: &["reqwest"],
    },
];

#[test]
fn no_layer_says_the_words_of_another() {
    let sources = sources();
    for ban in BANS {
        let in_reach = sources.iter().filter(|s| s.is_under(ban.under) && !s.is_under(ban.except));
        let said = in_reach.flat_map(|s| {
            let words = ban.words.iter().flat_map(|word| occurrences(&s.code, word).map(move |at| (at, word)));
            words.map(|(at, word)| format!("{}:{} says `{word}`", s.path, s.line(at))).collect::<Vec<_>>()
        });
        assert_none(ban.rule, said.collect());
    }
}

#[test]
fn ids_of_the_domain_are_all_that_it_has_from_sqlx() {
    let sources = sources();
    let ids = sources.iter().find(|s| s.path == "src/domain/ids.rs").expect("ids.rs");
    let lines = ids.code.lines().filter(|line| line.contains("sqlx"));
    assert_none(
        "`domain` may derive sqlx::Type and nothing else",
        lines.filter(|l| !l.contains("sqlx::Type") && !l.contains("#[sqlx(transparent)]")).map(str::to_owned).collect(),
    );
}

#[test]
fn sql_text_stands_in_the_store_alone() {
    const BEGINNINGS: [&str; 9] =
        ["SELECT ", "INSERT INTO ", "UPDATE ", "DELETE FROM ", "WITH ", "CREATE ", "ALTER ", "DROP ", "TRUNCATE "];
    let is_sql = |text: &String| {
        let text = text.trim_start_matches(|c: char| "rb#\"".contains(c)).trim_start();
        let text = text.strip_prefix("/*").and_then(|t| t.split_once("*/")).map_or(text, |(_, sql)| sql.trim_start());
        BEGINNINGS.iter().any(|word| text.starts_with(word))
    };
    let outside = sources().into_iter().filter(|s| {
        s.is_under(&["src", "providers", "contracts"]) && !s.is_under(&["src/store", "src/local/postgres"])
    });
    assert_none(
        "SQL text outside src/store",
        outside
            .flat_map(|s| s.literals.into_iter().filter(is_sql).map(move |sql| format!("{}: {sql}", s.path)))
            .collect(),
    );
}

/// Each module of `src` and the modules that it may use: http, console, cli → engine → store → domain. The demo is a
/// program of its own, on top of everything.
const DIRECTION: [(&str, &[&str]); 10] = [
    ("local/demo", &["cli", "http", "engine", "store", "domain", "config", "telemetry", "local"]),
    ("domain", &[]),
    ("config", &["domain"]),
    ("telemetry", &["config"]),
    ("local", &[]),
    ("store", &["domain"]),
    ("engine", &["store", "domain", "config", "telemetry"]),
    ("http", &["engine", "store", "domain", "config", "telemetry"]),
    ("console", &["http", "engine", "store", "domain", "config", "telemetry"]),
    ("cli", &["http", "console", "engine", "store", "domain", "config", "telemetry", "local"]),
];

#[test]
fn modules_depend_in_one_direction() {
    let mut offenders = Vec::new();
    for source in sources().iter().filter(|s| s.path.starts_with("src/")) {
        if ["src/lib.rs", "src/main.rs"].contains(&source.path.as_str()) {
            continue;
        }
        let Some((module, allowed)) = DIRECTION.iter().find(|(name, _)| source.is_under(&[&format!("src/{name}")]))
        else {
            offenders.push(format!("{} has no place in DIRECTION", source.path));
            continue;
        };
        for at in occurrences(&source.code, "crate::") {
            let used = source.code[at + "crate::".len()..]
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .next()
                .unwrap_or_default();
            if used != *module && !allowed.contains(&used) {
                offenders.push(format!("{}:{} uses `crate::{used}`", source.path, source.line(at)));
            }
        }
    }
    assert_none("http, console, cli → engine → store → domain", offenders);
}

#[test]
fn files_and_functions_stay_short() {
    let sources = sources();
    let long = |s: &Source| s.text.lines().count() > 500;
    assert_none("no file over 500 lines", sources.iter().filter(|s| long(s)).map(|s| s.path.clone()).collect());
    let functions = sources.iter().flat_map(|s| {
        functions(s)
            .into_iter()
            .filter(|(_, _, lines)| *lines > 60)
            .map(move |(name, line, lines)| format!("{}:{line} {name}: {lines} lines", s.path))
    });
    assert_none("no function over 60 lines", functions.collect());
}

/// Every function with a body: its name, its first line, and how many lines it has.
fn functions(source: &Source) -> Vec<(String, usize, usize)> {
    let found = occurrences(&source.code, "fn").filter_map(|at| {
        let name: String =
            source.code[at + 2..].trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let end = at + end_of_body(&source.code[at..])?;
        let (first, last) = (source.line(at), source.line(end));
        (!name.is_empty()).then_some((name, first, last - first + 1))
    });
    found.collect()
}

/// Where the body of the function that begins `code` ends; none for a declaration or a function type.
fn end_of_body(code: &str) -> Option<usize> {
    let (mut brackets, mut braces) = (0_i32, 0_i32);
    for (at, byte) in code.bytes().enumerate() {
        match byte {
            b'(' | b'[' => brackets += 1,
            b')' | b']' => brackets -= 1,
            b'{' => braces += 1,
            b'}' => braces -= 1,
            b';' if braces == 0 && brackets == 0 => return None,
            _ => {}
        }
        if byte == b'}' && braces == 0 {
            return Some(at);
        }
        // A function type among arguments, whose list has ended.
        if brackets < 0 || braces < 0 {
            return None;
        }
    }
    None
}

#[test]
fn names_say_what_a_file_holds() {
    const EMPTY: [&str; 6] = ["mod", "utils", "util", "common", "helpers", "manager"];
    let says_nothing = |s: &Source| s.path.split(['/', '.']).any(|part| EMPTY.contains(&part));
    assert_none(
        "no mod.rs, utils, common, helpers, manager",
        sources().iter().filter(|s| says_nothing(s)).map(|s| s.path.clone()).collect(),
    );
}

#[test]
fn every_module_opens_with_what_it_answers() {
    let mute = |s: &Source| !s.text.starts_with("//! ");
    assert_none(
        "a module opens with a `//!` doc",
        sources().iter().filter(|s| mute(s)).map(|s| s.path.clone()).collect(),
    );
}

#[test]
fn nothing_is_left_to_do() {
    const WORDS: [&str; 3] = ["todo!", "unimplemented!", "dbg!"];
    let left = |s: &Source| WORDS.iter().any(|word| occurrences(&s.code, word).next().is_some());
    assert_none(
        "no todo!, unimplemented!, dbg!",
        sources().iter().filter(|s| left(s)).map(|s| s.path.clone()).collect(),
    );
}

#[test]
fn the_top_level_shows_what_there_is_and_nothing_else() {
    const NEEDED: [&str; 9] =
        ["Cargo.toml", "Cargo.lock", "README.md", "src", "providers", "contracts", "migrations", "tests", "fixtures"];
    // `target` is cargo's, and git does not see it; so is a private Postgres of somebody's own.
    const ALLOWED: [&str; 5] = ["benches", "docs", "deploy", "target", "interlock-data"];
    let names = std::fs::read_dir(top())
        .expect("the top")
        .map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned());
    let visible: BTreeSet<String> = names.filter(|name| !name.starts_with('.')).collect();
    let surplus = visible.iter().filter(|n| !NEEDED.contains(&n.as_str()) && !ALLOWED.contains(&n.as_str())).cloned();
    let missing = NEEDED.iter().filter(|n| !visible.contains(**n)).map(|n| format!("{n} is missing"));
    assert_none("the visible top level", surplus.chain(missing).collect());
}
