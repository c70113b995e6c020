//! An answer of another protocol while it is put together in the client's dialect, whole or piece by piece.
//!
//! A protocol says what it was told (text, reasoning, a call, the end), and the draft does both at once: it makes the
//! chunks that a streaming client gets now, and keeps what the stored answer is rendered from. So the two mean the
//! same. The rendering depends on the answer alone: `created` is the answer's `Date`, or 0. A finish reason goes out
//! only with [`Draft::settle`], when the protocol's own end was seen.

mod render;
#[cfg(test)]
mod tests;

use crate::adapter::{Head, StreamPiece};
use crate::canonical::{Answer, Choice, Finish, Reply, ToolCall, Usage};
use crate::failure::Failure;
use crate::json::{Json, Object};
use crate::numbered::Lists;
use crate::openai::request::MAX_TOOL_CALLS;
use crate::refusal;

use render::Chunks;

/// Tokens as the provider counted them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Counted {
    pub usage: Usage,
    /// Of the output, where it is said.
    pub reasoning: Option<u64>,
    pub cache_writes: u64,
    /// The provider's own object, as it came: what it says beyond this stays readable.
    pub native: Json,
}

/// One choice so far.
#[derive(Debug, Default)]
struct Drafted {
    index: u64,
    text: Option<String>,
    refusal: Option<String>,
    reasoning: String,
    calls: Vec<ToolCall>,
    /// By the place of the call: what stands beside its function.
    call_members: Vec<Option<(&'static str, Json)>>,
    logprobs: Vec<Json>,
    /// Further members of the message, and of the choice.
    message: Object,
    lists: Lists,
    members: Object,
    end: Option<(Finish, String)>,
}

#[derive(Debug)]
pub(crate) struct Draft {
    head: Head,
    id: Option<String>,
    model: Option<String>,
    /// The model's name for the client, of a provider whose answers do not name one.
    asked: Option<String>,
    members: Object,
    choices: Vec<Drafted>,
    counted: Option<Counted>,
    usage_unreadable: bool,
    answer: Option<Answer>,
}

impl Draft {
    pub fn new(head: &Head) -> Self {
        Draft {
            head: head.clone(),
            id: None,
            model: None,
            asked: None,
            members: Object::new(),
            choices: Vec::new(),
            counted: None,
            usage_unreadable: false,
            answer: None,
        }
    }

    /// For a protocol whose answers do not name the model: the client is told the name that it asked for.
    pub fn asked_of(model: &str, head: &Head) -> Self {
        Draft { asked: Some(model.to_owned()), ..Draft::new(head) }
    }

    /// The provider's id of the answer and the model that answers; the first that is said holds.
    pub fn identify(&mut self, id: Option<&str>, model: Option<&str>) {
        let first = |known: &mut Option<String>, said: Option<&str>| {
            if known.is_none() {
                *known = said.filter(|text| !text.is_empty()).map(str::to_owned);
            }
        };
        first(&mut self.id, id);
        first(&mut self.model, model);
    }

    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// A member of the answer beside its choices.
    pub fn answer_member(&mut self, name: &str, value: Json) {
        self.members.insert(name, value);
    }

    /// Begins a choice, once.
    pub fn open(&mut self, index: u64, out: &mut Vec<StreamPiece>) {
        self.at(index, out);
    }

    /// A piece of what is said, with the log probabilities of its tokens where they came. An empty piece says that
    /// there is a text.
    pub fn text(&mut self, index: u64, more: &str, logprobs: Vec<Json>, out: &mut Vec<StreamPiece>) {
        let at = self.at(index, out);
        self.choices[at].text.get_or_insert_default().push_str(more);
        self.choices[at].logprobs.extend_from_slice(&logprobs);
        if !more.is_empty() || !logprobs.is_empty() {
            self.chunks().delta(index, "content", Json::from(more), logprobs, out);
        }
    }

    pub fn reasoning(&mut self, index: u64, more: &str, out: &mut Vec<StreamPiece>) {
        let at = self.at(index, out);
        self.choices[at].reasoning.push_str(more);
        if !more.is_empty() {
            self.chunks().delta(index, "reasoning_content", Json::from(more), Vec::new(), out);
        }
    }

    /// The provider's explanation why it does not answer.
    pub fn refuse(&mut self, index: u64, more: &str, out: &mut Vec<StreamPiece>) {
        let at = self.at(index, out);
        if !more.is_empty() {
            self.choices[at].refusal.get_or_insert_default().push_str(more);
            self.chunks().delta(index, "refusal", Json::from(more), Vec::new(), out);
        }
    }

    /// A call begins; the number that its arguments are added under.
    pub fn call(
        &mut self,
        index: u64,
        id: &str,
        name: &str,
        beside: Option<(&'static str, Json)>,
        out: &mut Vec<StreamPiece>,
    ) -> Result<usize, Failure> {
        let at = self.at(index, out);
        let number = self.choices[at].calls.len();
        if number >= MAX_TOOL_CALLS {
            return Err(self.invalid(format!("more than {MAX_TOOL_CALLS} tool calls")));
        }
        if id.is_empty() || name.is_empty() {
            return Err(self.invalid(format!("tool call {number} lacks an id or a name")));
        }
        self.chunks().opened(index, number, id, name, beside.as_ref(), out);
        self.choices[at].calls.push(ToolCall { id: id.to_owned(), name: name.to_owned(), arguments: String::new() });
        self.choices[at].call_members.push(beside);
        Ok(number)
    }

    pub fn arguments(&mut self, index: u64, number: usize, more: &str, out: &mut Vec<StreamPiece>) {
        let at = self.at(index, out);
        let Some(call) = self.choices[at].calls.get_mut(number) else { return };
        if !more.is_empty() {
            call.arguments.push_str(more);
            self.chunks().arguments(index, number, more, out);
        }
    }

    /// The calls of a choice so far.
    pub fn calls(&self, index: u64) -> &[ToolCall] {
        self.choices.iter().find(|choice| choice.index == index).map_or(&[], |choice| choice.calls.as_slice())
    }

    /// A member of the message: of a list, more items, which go out now; anything else replaces what was said before,
    /// and goes out with the end, since clients add up what comes twice.
    pub fn message_member(&mut self, index: u64, name: &str, value: Json, out: &mut Vec<StreamPiece>) {
        let at = self.at(index, out);
        if let Json::Array(_) = value {
            let numbered = self.choices[at].lists.number(name, value.clone());
            self.chunks().delta(index, name, numbered, Vec::new(), out);
        }
        match (self.choices[at].message.get_mut(name), value) {
            (Some(Json::Array(items)), Json::Array(more)) => items.extend(more),
            (_, value) => drop(self.choices[at].message.insert(name, value)),
        }
    }

    /// What a provider's message says beyond the members that are read, as blocks of their own kinds. What is empty says
    /// nothing.
    pub fn keep_others(&mut self, index: u64, message: &Object, known: &[&str], out: &mut Vec<StreamPiece>) {
        for (name, value) in message.iter().filter(|(name, _)| !known.contains(name)) {
            let empty = match value {
                Json::Null | Json::Bool(_) => true,
                Json::Number(_) => false,
                Json::String(text) => text.is_empty(),
                Json::Array(items) => items.is_empty(),
                Json::Object(members) => members.is_empty(),
            };
            if !empty {
                let block: Object = [("type", Json::from(name)), (name, value.clone())].into_iter().collect();
                self.message_member(index, "other_blocks", Json::Array(vec![block.into()]), out);
            }
        }
    }

    /// A member of the choice, which goes out with its end.
    pub fn choice_member(&mut self, index: u64, name: &str, value: Json, out: &mut Vec<StreamPiece>) {
        let at = self.at(index, out);
        self.choices[at].members.insert(name, value);
    }

    /// Why the choice ended, in OpenAI's word and in the provider's own. The last word holds.
    pub fn end(&mut self, index: u64, finish: Finish, native: &str, out: &mut Vec<StreamPiece>) {
        let at = self.at(index, out);
        self.choices[at].end = Some((finish, native.to_owned()));
    }

    /// Whether this choice has ended.
    pub fn has_ended(&self, index: u64) -> bool {
        self.choices.iter().any(|choice| choice.index == index && choice.end.is_some())
    }

    /// What was counted; `None`: there is a count, and it cannot be read.
    pub fn count(&mut self, counted: Option<Counted>) {
        self.usage_unreadable = counted.is_none();
        self.counted = counted;
    }

    pub fn usage(&self) -> Option<Usage> {
        self.counted.as_ref().map(|counted| counted.usage)
    }

    /// How many choices there are, where each of them has ended.
    pub fn ended(&self) -> Option<u64> {
        let all = !self.choices.is_empty() && self.choices.iter().all(|choice| choice.end.is_some());
        all.then_some(self.choices.len() as u64)
    }

    /// The whole answer, and what ends it for a streaming client. A second time: the same answer and no pieces.
    pub fn settle(&mut self, out: &mut Vec<StreamPiece>) -> Result<Answer, Failure> {
        if let Some(answer) = &self.answer {
            return Ok(answer.clone());
        }
        for number in 0..self.choices.len() {
            self.fill_arguments(number, out);
        }
        self.choices.sort_by_key(|choice| choice.index);
        let choices = self.choices.iter().map(|drafted| self.choice(drafted)).collect::<Result<Vec<_>, _>>()?;
        if choices.is_empty() {
            return Err(self.invalid("the answer has no choices"));
        }
        for (drafted, choice) in self.choices.iter().zip(&choices) {
            for (name, value) in drafted.message.iter().filter(|(_, value)| value.as_array().is_none()) {
                self.chunks().delta(choice.index, name, value.clone(), Vec::new(), out);
            }
            self.chunks().last(drafted, choice, out);
        }
        if let Some(counted) = &self.counted {
            self.chunks().usage(counted, out);
        }
        let reply = Reply {
            id: self.id.clone(),
            model: self.model.clone(),
            choices,
            usage: self.usage(),
            usage_unreadable: self.usage_unreadable,
        };
        let body = self.chunks().whole(&self.choices, &reply, self.counted.as_ref());
        let answer = Answer { reply, body };
        self.answer = Some(answer.clone());
        Ok(answer)
    }

    /// A call whose arguments never came has none.
    fn fill_arguments(&mut self, choice: usize, out: &mut Vec<StreamPiece>) {
        let index = self.choices[choice].index;
        for number in 0..self.choices[choice].calls.len() {
            if self.choices[choice].calls[number].arguments.is_empty() {
                self.arguments(index, number, "{}", out);
            }
        }
    }

    fn choice(&self, drafted: &Drafted) -> Result<Choice, Failure> {
        let index = drafted.index;
        let Some((finish, native)) = &drafted.end else {
            return Err(self.invalid(format!("choice {index} did not end")));
        };
        let finish = match finish {
            // Some end with "stop" after tool calls (field decision D5).
            Finish::Stop if !drafted.calls.is_empty() => Finish::ToolCalls,
            Finish::ToolCalls if drafted.calls.is_empty() => {
                return Err(self.invalid(format!("choice {index} stopped for a tool call and has none")));
            }
            finish => *finish,
        };
        // An empty text is an answer; nothing at all, without a word why, is an empty success.
        let nothing = drafted.text.is_none() && drafted.refusal.is_none() && drafted.message.is_empty();
        if finish == Finish::Stop && nothing {
            return Err(self.invalid(format!("choice {index} is empty: no text, no refusal, no tool call")));
        }
        // A limit may cut a call in the middle; an end may not.
        let broken =
            |call: &&ToolCall| Json::parse(call.arguments.as_bytes()).ok().and_then(Json::into_object).is_none();
        if let Some(call) = drafted.calls.iter().find(broken).filter(|_| finish != Finish::Length) {
            return Err(self.invalid(format!("the arguments of the call to {} are no JSON object", call.name)));
        }
        Ok(Choice {
            index,
            text: drafted.text.clone(),
            refusal: drafted.refusal.clone(),
            tool_calls: drafted.calls.clone(),
            finish,
            native_finish: native.clone(),
        })
    }

    fn at(&mut self, index: u64, out: &mut Vec<StreamPiece>) -> usize {
        if let Some(at) = self.choices.iter().position(|choice| choice.index == index) {
            return at;
        }
        self.choices.push(Drafted { index, ..Drafted::default() });
        self.chunks().opening(index, out);
        self.choices.len() - 1
    }

    fn chunks(&self) -> Chunks<'_> {
        let model = self.model.as_deref().or(self.asked.as_deref());
        Chunks { head: &self.head, id: self.id.as_deref(), model, members: &self.members }
    }

    /// The work was done: what it cost is kept where it can be read.
    pub fn billed(&self, failure: Failure) -> Failure {
        Failure { usage: failure.usage.or(self.usage()), ..failure }
    }

    /// A complete answer that is none.
    pub fn invalid(&self, message: impl AsRef<str>) -> Failure {
        self.billed(refusal::invalid_answer(self.head.status, message))
    }
}

/// A short text that is the same for the same input: for ids that a protocol lacks.
pub(crate) fn fingerprint(text: &str) -> String {
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    format!("{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, fold))
}
