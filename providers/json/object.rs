//! A JSON object: members in the order they came, each name once.
//!
//! Look-ups walk the list: the objects that are looked into have a few dozen members, and a list keeps their order.

use super::{Json, canonical};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Object {
    members: Vec<(String, Json)>,
}

impl Object {
    pub fn new() -> Self {
        Object::default()
    }

    pub fn get(&self, name: &str) -> Option<&Json> {
        self.members.iter().find(|(n, _)| n == name).map(|(_, value)| value)
    }

    /// As [`Object::get`], but a `null` member counts as absent.
    pub fn get_some(&self, name: &str) -> Option<&Json> {
        self.get(name).filter(|value| !value.is_null())
    }

    pub fn get_mut(&mut self, name: &str) -> Option<&mut Json> {
        self.members.iter_mut().find(|(n, _)| n == name).map(|(_, value)| value)
    }

    /// Sets a member: in its place where the name stands already (the old value is returned), at the end otherwise.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<Json>) -> Option<Json> {
        let name = name.into();
        let value = value.into();
        if let Some(slot) = self.get_mut(&name) {
            return Some(std::mem::replace(slot, value));
        }
        self.members.push((name, value));
        None
    }

    /// Takes a member out; the others keep their order.
    pub fn remove(&mut self, name: &str) -> Option<Json> {
        let index = self.members.iter().position(|(n, _)| n == name)?;
        Some(self.members.remove(index).1)
    }

    /// Renames a member where it stands. Does nothing where it is absent or the new name is taken.
    pub fn rename(&mut self, from: &str, to: &str) {
        if self.contains_key(to) {
            return;
        }
        if let Some((name, _)) = self.members.iter_mut().find(|(n, _)| n == from) {
            to.clone_into(name);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Json)> {
        self.members.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// As [`Json::canonical`], without the members named.
    pub fn canonical_without(&self, left_out: &[&str], out: &mut Vec<u8>) {
        canonical::members(self.iter().filter(|(name, _)| !left_out.contains(name)), out);
    }

    pub fn len(&self) -> usize {
        self.members.len()
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// For callers that have made sure that every name is unique: the parser, maps, and copies of another object.
    pub(crate) fn from_unique(members: Vec<(String, Json)>) -> Self {
        Object { members }
    }
}

/// A later value replaces an earlier one of the same name. Meant for objects written in code: it looks every name up.
impl<N: Into<String>, V: Into<Json>> FromIterator<(N, V)> for Object {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(iter: I) -> Self {
        let mut object = Object::new();
        for (name, value) in iter {
            object.insert(name, value);
        }
        object
    }
}
