// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses formulas by recursive descent with limited depth.

use super::function::{FUNCTIONS, Function};
use super::{Expression, FormulaError, Operator};
use crate::Metric;
use std::str::FromStr;
use weirgate_document::nearest;
use weirgate_linklayer::LinkLayer;

/// The largest number of characters in a formula.
const LONGEST: usize = 500;
/// The largest nesting depth of parentheses and signs.
const DEEPEST: u32 = 20;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Token<'t> {
    Number(f64),
    Name(&'t str),
    Mark(char),
}

pub(super) fn parse(text: &str) -> Result<Expression, FormulaError> {
    if text.len() > LONGEST {
        return Err(error(
            "the formula is too long".to_owned(),
            &format!("write at most {LONGEST} characters"),
        ));
    }
    let mut reader = Reader {
        tokens: tokens(text)?,
        at: 0,
    };
    if reader.tokens.is_empty() {
        return Err(error("the formula is empty".to_owned(), HINT));
    }
    let root = reader.sum(0)?;
    match reader.peek() {
        None => Ok(root),
        Some(Token::Mark(')')) => Err(error("a `)` has no `(`".to_owned(), HINT)),
        Some(_) => Err(error(
            "two values stand beside each other without an operator".to_owned(),
            HINT,
        )),
    }
}

const HINT: &str = "write numbers, metric names, + - * / with spaces, parentheses and functions";

fn error(problem: String, hint: &str) -> FormulaError {
    FormulaError {
        problem,
        hint: hint.to_owned(),
    }
}

fn tokens(text: &str) -> Result<Vec<Token<'_>>, FormulaError> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if first.is_ascii_digit() {
            let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'));
            let digits = &rest[..end.unwrap_or(rest.len())];
            let number = digits
                .parse()
                .map_err(|_| error(format!("`{digits}` is not a number"), HINT))?;
            tokens.push(Token::Number(number));
            digits.len()
        } else if first.is_ascii_lowercase() {
            let inside = |c: char| c.is_ascii_alphanumeric() || ".-:_@".contains(c);
            let end = rest.find(|c| !inside(c)).unwrap_or(rest.len());
            tokens.push(Token::Name(&rest[..end]));
            end
        } else if "+-*/(),".contains(first) {
            tokens.push(Token::Mark(first));
            1
        } else {
            return Err(error(
                format!("`{first}` does not belong in a formula"),
                HINT,
            ));
        };
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

struct Reader<'t> {
    tokens: Vec<Token<'t>>,
    at: usize,
}

impl<'t> Reader<'t> {
    fn peek(&self) -> Option<Token<'t>> {
        self.tokens.get(self.at).copied()
    }

    /// Consumes the mark if it comes next; returns whether it did.
    fn take(&mut self, mark: char) -> bool {
        let there = self.peek() == Some(Token::Mark(mark));
        self.at += usize::from(there);
        there
    }

    fn sum(&mut self, depth: u32) -> Result<Expression, FormulaError> {
        let mut left = self.product(depth)?;
        loop {
            let operator = if self.take('+') {
                Operator::Add
            } else if self.take('-') {
                Operator::Subtract
            } else {
                return Ok(left);
            };
            let right = self.product(depth)?;
            left = Expression::Binary(operator, Box::new(left), Box::new(right));
        }
    }

    fn product(&mut self, depth: u32) -> Result<Expression, FormulaError> {
        let mut left = self.value(depth)?;
        loop {
            let operator = if self.take('*') {
                Operator::Multiply
            } else if self.take('/') {
                Operator::Divide
            } else {
                return Ok(left);
            };
            let right = self.value(depth)?;
            left = Expression::Binary(operator, Box::new(left), Box::new(right));
        }
    }

    fn value(&mut self, depth: u32) -> Result<Expression, FormulaError> {
        if depth > DEEPEST {
            let hint = format!("nest at most {DEEPEST} parentheses or signs");
            return Err(error("the formula is too deep".to_owned(), &hint));
        }
        if self.take('-') {
            let inner = self.value(depth + 1)?;
            return Ok(Expression::Negative(Box::new(inner)));
        }
        if self.take('(') {
            let inner = self.sum(depth + 1)?;
            return self.closed(inner);
        }
        match self.peek() {
            Some(Token::Number(number)) => {
                self.at += 1;
                Ok(Expression::Number(number))
            }
            Some(Token::Name(name)) => {
                self.at += 1;
                if self.take('(') {
                    return self.call(name, depth);
                }
                let (name, arm) = match name.split_once('@') {
                    Some((_, "")) => {
                        let problem = format!("`{name}` names no arm");
                        return Err(error(problem, "write METRIC@ARM"));
                    }
                    Some((name, arm)) => (name, Some(arm.to_owned())),
                    None => (name, None),
                };
                let metric = Metric::from_str(name);
                metric
                    .map(|metric| Expression::Metric(metric, arm))
                    .map_err(|wrong| FormulaError {
                        problem: wrong.problem,
                        hint: wrong.hint,
                    })
            }
            Some(Token::Mark(mark)) => Err(error(format!("`{mark}` is not a value"), HINT)),
            None => Err(error("the formula ends too early".to_owned(), HINT)),
        }
    }

    fn closed(&mut self, inner: Expression) -> Result<Expression, FormulaError> {
        if self.take(')') {
            Ok(inner)
        } else {
            Err(error("a `)` is missing".to_owned(), HINT))
        }
    }

    fn call(&mut self, name: &str, depth: u32) -> Result<Expression, FormulaError> {
        let function = Function::named(name).ok_or_else(|| {
            let names = || FUNCTIONS.iter().map(|function| function.0);
            let hint = match nearest(name, names()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known: {}", names().collect::<Vec<_>>().join(", ")),
            };
            error(format!("`{name}` is not a function"), &hint)
        })?;
        let form = format!("write `{name}({})`", function.arguments());
        let mut layer = None;
        if function.takes_layer() {
            let Some(Token::Name(text)) = self.peek() else {
                let problem = format!("`{name}` begins with a link layer");
                return Err(error(problem, &form));
            };
            self.at += 1;
            let found = LinkLayer::named(text);
            layer = Some(found.map_err(|unknown| error(unknown.to_string(), &form))?);
        }
        let mut numbers = Vec::new();
        while layer.is_none() && numbers.is_empty() || self.take(',') {
            numbers.push(self.sum(depth + 1)?);
        }
        if numbers.len() != function.numbers() {
            let problem = format!(
                "`{name}` takes {} number{} here, not {}",
                function.numbers(),
                if function.numbers() == 1 { "" } else { "s" },
                numbers.len()
            );
            return Err(error(problem, &form));
        }
        self.closed(Expression::Call(function, layer, numbers))
    }
}
