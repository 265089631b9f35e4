// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Values with their places.

use crate::problem::SourceSpan;
use std::ops::Deref;

/// A value with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value<T> {
    /// The value.
    pub value: T,
    /// Its place in the document.
    pub span: SourceSpan,
    /// Its line, from 1.
    pub line: u32,
}

impl<T> Value<T> {
    /// Converts the value, and keeps its place.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Value<U> {
        Value {
            value: f(self.value),
            span: self.span,
            line: self.line,
        }
    }
}

impl<T> Deref for Value<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

/// The kind of a field's value, for fields with several permitted kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A text in quotes.
    Text,
    /// A number, with or without a fraction.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A list in brackets.
    List,
    /// A table.
    Table,
    /// A date or a time, which no field permits.
    Date,
}
