//! Tables for people, JSON for programs.

use comfy_table::{ContentArrangement, Table};
use serde_json::Value;

use super::{Answer, Context, Failure};

/// Prints `value`, or a table of it.
pub fn print(context: &Context, value: &Value, header: &[&str], rows: Vec<Vec<String>>) -> Result<(), Failure> {
    if context.json {
        println!("{}", serde_json::to_string_pretty(value)?);
    } else if rows.is_empty() {
        println!("none");
    } else {
        let mut table = Table::new();
        table.load_style(comfy_table::presets::NOTHING);
        table.set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(header.iter().copied());
        table.add_rows(rows);
        println!("{table}");
    }
    Ok(())
}

/// The answer is no, and why.
pub fn refuse(context: &Context, code: &str, why: &str) -> Result<Answer, Failure> {
    if context.json {
        let refusal = serde_json::json!({ "error": { "code": code, "message": why } });
        println!("{}", serde_json::to_string_pretty(&refusal)?);
    } else {
        eprintln!("interlock: {why}");
    }
    Ok(Answer::No)
}

/// A member of a JSON object as text for a table; nothing for null.
pub fn cell(value: &Value, name: &str) -> String {
    match &value[name] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// One row per value, one cell per member.
pub fn rows(values: &[Value], members: &[&str]) -> Vec<Vec<String>> {
    values.iter().map(|value| members.iter().map(|name| cell(value, name)).collect()).collect()
}
