//! CEL, for what one comparison cannot say: `output.total == output.items.map(i, i.price).sum()` and the like.
//!
//! An expression is compiled when the suite is read, and names nothing that is not there. Integers of up to 64 bits stay
//! integers; a longer one is said to be too long, never rounded. What is false is explained by its smallest false part.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use cel::common::ast::{EntryExpr, Expr, IdedExpr};
use cel::{Context, ExecutionError, Program, Value};
use providers::json::Json;

use crate::check::excerpt;

/// What an expression may name: the whole output, the value at `at`, and the case's variables.
pub(crate) const NAMES: [&str; 3] = ["output", "this", "vars"];

/// Names that CEL itself gives a meaning: its types.
const TYPES: [&str; 10] = ["bool", "bytes", "double", "dyn", "int", "list", "map", "null_type", "string", "uint"];

/// A compiled expression, and the variables of the case that it belongs to.
#[derive(Clone)]
pub struct Expression {
    text: String,
    program: Arc<Program>,
    vars: Value,
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Expression").field(&self.text).finish()
    }
}

/// Expressions are the same where their text is.
impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// Why an expression cannot be used, and at which of its characters where that is known.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotCompiled {
    pub what: String,
    pub at: Option<usize>,
}

impl Expression {
    pub(crate) fn compile(text: &str, vars: &Json) -> Result<Expression, NotCompiled> {
        let plain = |what: String| NotCompiled { what, at: None };
        let program = Program::compile(text).map_err(|errors| match errors.errors.first() {
            Some(error) => NotCompiled { what: error.msg.replace('\n', " "), at: offset(text, error.pos) },
            None => plain("it does not parse".to_owned()),
        })?;
        let mut seen = Seen::default();
        seen.look(program.expression(), &mut Vec::new());
        if let Some(name) = seen.names.iter().find(|n| !NAMES.contains(&n.as_str()) && !TYPES.contains(&n.as_str())) {
            let what = format!("nothing is called `{name}` here (known: {})", NAMES.join(", "));
            return Err(NotCompiled { what, at: text.find(name.as_str()) });
        }
        if let Some(name) = seen.functions.iter().find(|name| !is_function(name)) {
            return Err(NotCompiled { what: format!("there is no function `{name}`"), at: text.find(name.as_str()) });
        }
        let vars = to_cel(vars, "").map_err(|why| plain(format!("the case's variables: {why}")))?;
        Ok(Expression { text: text.to_owned(), program: Arc::new(program), vars })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether it holds; `Err` says in words which part does not, or why that cannot be said.
    pub(crate) fn judge(&self, output: &Json, this: &Json) -> Result<(), String> {
        let mut context = Context::default();
        context.add_variable_from_value("output", to_cel(output, "")?);
        context.add_variable_from_value("this", to_cel(this, "")?);
        context.add_variable_from_value("vars", self.vars.clone());
        match self.program.execute(&context) {
            Ok(Value::Bool(true)) => Ok(()),
            Ok(Value::Bool(false)) => {
                Err(format!("{} is false{}", self.text, explain(self.program.expression(), &context)))
            }
            Ok(other) => Err(format!("{} gives {}, neither true nor false", self.text, show(&other))),
            Err(error) => Err(format!("{} cannot be judged: {}", self.text, in_words(&error))),
        }
    }
}

/// What an expression refers to beyond what it binds itself.
#[derive(Default)]
struct Seen {
    names: BTreeSet<String>,
    functions: BTreeSet<String>,
}

impl Seen {
    fn look<'a>(&mut self, node: &'a IdedExpr, bound: &mut Vec<&'a str>) {
        match &node.expr {
            Expr::Unspecified | Expr::Literal(_) => {}
            Expr::Ident(name) => {
                if !name.starts_with('@') && !bound.contains(&name.as_str()) {
                    self.names.insert(name.clone());
                }
            }
            Expr::Call(call) => {
                self.functions.insert(call.func_name.clone());
                call.target.iter().for_each(|target| self.look(target, bound));
                call.args.iter().for_each(|argument| self.look(argument, bound));
            }
            Expr::Select(select) => self.look(&select.operand, bound),
            Expr::List(list) => list.elements.iter().for_each(|element| self.look(element, bound)),
            Expr::Map(map) => map.entries.iter().for_each(|entry| self.entry(&entry.expr, bound)),
            Expr::Struct(fields) => fields.entries.iter().for_each(|entry| self.entry(&entry.expr, bound)),
            Expr::Comprehension(each) => {
                self.look(&each.iter_range, bound);
                self.look(&each.accu_init, bound);
                let before = bound.len();
                bound.extend([each.iter_var.as_str(), each.accu_var.as_str()]);
                bound.extend(each.iter_var2.as_deref());
                for part in [&each.loop_cond, &each.loop_step, &each.result] {
                    self.look(part, bound);
                }
                bound.truncate(before);
            }
        }
    }

    fn entry<'a>(&mut self, entry: &'a EntryExpr, bound: &mut Vec<&'a str>) {
        match entry {
            EntryExpr::StructField(field) => self.look(&field.value, bound),
            EntryExpr::MapEntry(entry) => {
                self.look(&entry.key, bound);
                self.look(&entry.value, bound);
            }
        }
    }
}

/// Whether CEL knows a function of this name. Its table is not public: called with nothing, an unknown one says so.
fn is_function(name: &str) -> bool {
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return true; // an operator
    }
    [format!("{name}()"), format!("''.{name}()")].iter().any(|call| {
        Program::compile(call).is_ok_and(|program| {
            !matches!(program.execute(&Context::default()), Err(ExecutionError::UndeclaredReference(_)))
        })
    })
}

/// The smallest false part, where it can be told: the first false half of an `&&`, the two sides of a comparison.
fn explain(node: &IdedExpr, context: &Context<'_, '_>) -> String {
    let Expr::Call(call) = &node.expr else { return String::new() };
    match (call.func_name.as_str(), call.args.as_slice()) {
        ("_&&_", halves) => halves
            .iter()
            .find(|half| Value::resolve(half, context) == Ok(Value::Bool(false)))
            .map(|half| explain(half, context))
            .unwrap_or_default(),
        ("_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_" | "@in" | "_in_", [left, right]) => {
            match (Value::resolve(left, context), Value::resolve(right, context)) {
                (Ok(left), Ok(right)) => format!(": {} on the left, {} on the right", show(&left), show(&right)),
                _ => String::new(),
            }
        }
        _ => String::new(),
    }
}

/// Where `(line, column)`, both counted from one, stands in the text.
fn offset(text: &str, (line, column): (isize, isize)) -> Option<usize> {
    let before = usize::try_from(line).ok()?.checked_sub(1)?;
    let start: usize = text.split_inclusive('\n').take(before).map(str::len).sum();
    Some((start + usize::try_from(column).ok()?.saturating_sub(1)).min(text.len()))
}

fn to_cel(json: &Json, at: &str) -> Result<Value, String> {
    Ok(match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::String(text) => Value::String(Arc::new(text.clone())),
        Json::Number(number) => {
            let text = number.as_str();
            if text.contains(['.', 'e', 'E']) {
                Value::Float(number.as_f64())
            } else if let Ok(value) = text.parse::<i64>() {
                Value::Int(value)
            } else if let Ok(value) = text.parse::<u64>() {
                Value::UInt(value)
            } else {
                let place = if at.is_empty() { "the output" } else { at };
                return Err(format!("{place} is an integer beyond 64 bits, which CEL cannot hold: use equals_json"));
            }
        }
        Json::Array(items) => {
            let items = items.iter().enumerate().map(|(i, item)| to_cel(item, &format!("{at}/{i}")));
            Value::List(Arc::new(items.collect::<Result<Vec<_>, _>>()?))
        }
        Json::Object(members) => {
            let mut map: HashMap<String, Value> = HashMap::with_capacity(members.len());
            for (name, value) in members.iter() {
                map.insert(name.to_owned(), to_cel(value, &format!("{at}/{}", crate::assertion::step(name)))?);
            }
            Value::Map(map.into())
        }
    })
}

fn show(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::UInt(value) => value.to_string(),
        Value::Float(value) => value.to_string(),
        Value::String(text) => excerpt(text),
        Value::List(items) => format!("a list of {}", items.len()),
        Value::Map(map) => format!("an object of {} members", map.map.len()),
        other => excerpt(&format!("{other:?}")),
    }
}

/// Without the values, which would be a whole answer.
fn in_words(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("there is no member {}", excerpt(key)),
        ExecutionError::NoSuchOverload(error) => error.to_string(),
        ExecutionError::UndeclaredReference(name) => format!("nothing is called `{name}`"),
        ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => "it divides by zero".to_owned(),
        ExecutionError::Overflow(operator, ..) => format!("`{operator}` overflows 64 bits"),
        ExecutionError::IndexOutOfBounds(_) => "an index is out of bounds".to_owned(),
        other => excerpt(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    fn judged(expression: &str, output: &str) -> Result<(), String> {
        let output = json(output);
        Expression::compile(expression, &json(r#"{"name": "Ada"}"#)).unwrap().judge(&output, &output)
    }

    #[test]
    fn an_expression_speaks_of_the_output_and_of_the_case() {
        judged(
            "output.items.all(i, i.price > 0) && size(output.items) == 2",
            r#"{"items":[{"price":1},{"price":2.5}]}"#,
        )
        .unwrap();
        judged("output.greeting.contains(vars.name)", r#"{"greeting":"Hello, Ada"}"#).unwrap();
        judged("this.a == 1 && has(this.b)", r#"{"a":1,"b":null}"#).unwrap();
        judged("output.code.matches('^[A-Z]{3}$')", r#"{"code":"ABC"}"#).unwrap();
    }

    #[test]
    fn what_is_false_is_explained_by_its_smallest_false_part() {
        let why = judged("output.a == 1 && output.b == output.c", r#"{"a":1,"b":3,"c":4}"#).unwrap_err();
        assert!(why.ends_with("is false: 3 on the left, 4 on the right"), "{why}");
    }

    #[test]
    fn what_cannot_be_judged_is_told_without_the_answer() {
        let why = judged("output.a.b > 1", r#"{"a":{"secret":"x"}}"#).unwrap_err();
        assert!(why.contains("there is no member “b”") && !why.contains("secret"), "{why}");
        let why = judged("output.a + 1", r#"{"a":1}"#).unwrap_err();
        assert!(why.contains("gives 2, neither true nor false"), "{why}");
    }

    #[test]
    fn integers_stay_exact_up_to_64_bits_and_are_refused_beyond() {
        judged("output.id == 9007199254740993", r#"{"id":9007199254740993}"#).unwrap();
        assert!(judged("output.id == 9007199254740993", r#"{"id":9007199254740992}"#).is_err());
        judged("output.id == 18446744073709551615u", r#"{"id":18446744073709551615}"#).unwrap();
        let why = judged("output.id > 0", r#"{"id":18446744073709551616}"#).unwrap_err();
        assert!(why.contains("/id is an integer beyond 64 bits") && why.contains("equals_json"), "{why}");
    }

    #[test]
    fn an_expression_that_cannot_work_is_refused_when_it_is_read() {
        let error = |text: &str| Expression::compile(text, &Json::Null).unwrap_err();
        assert!(error("output.a ==").at.is_some());
        assert!(error("outptu.a == 1").what.contains("`outptu`"));
        assert_eq!(error("output.a == 1 && outptu.a == 1").at, Some(17));
        assert!(error("lenght(output) > 1").what.contains("there is no function `lenght`"));
        assert!(error("output.items.al(i, i > 1)").what.contains('`'));
        for good in
            ["output.s.startsWith('a')", "size(output.a) > 1", "int(output.a) in [1, 2]", "type(output.a) == int"]
        {
            assert!(Expression::compile(good, &Json::Null).is_ok(), "{good}");
        }
    }
}
