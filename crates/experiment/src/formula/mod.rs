// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Formulas: figures that are calculated instead of measured.
//!
//! `63712 * 8 / upload1.rtt.interactive.mean_ms` is the throughput that a window allows at a
//! measured round-trip time. `wire-bytes(adsl:bridged-vc-fcs, 40)` calls crate `linklayer`. A
//! formula has numbers, metric names, `+ - * /`, parentheses and functions. A metric name ends
//! at a space or a parenthesis, so operators need spaces around them. `METRIC@ARM` is a metric
//! of another arm of the experiment. This module parses and evaluates formulas; the caller
//! checks which metrics exist.

mod function;
mod parse;

pub use function::FUNCTIONS;

use crate::Metric;
use function::Function;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;
use weirgate_linklayer::LinkLayer;

/// A formula, with its text.
#[derive(Debug, Clone, PartialEq)]
pub struct Formula {
    text: String,
    root: Expression,
}

/// Part of a formula.
#[derive(Debug, Clone, PartialEq)]
enum Expression {
    Number(f64),
    /// A metric, and the arm if it is another than the formula's own.
    Metric(Metric, Option<String>),
    Negative(Box<Self>),
    Binary(Operator, Box<Self>, Box<Self>),
    Call(Function, Option<LinkLayer>, Vec<Self>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// Occurs when a text is not a formula.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{problem}; {hint}")]
pub struct FormulaError {
    /// What is wrong.
    pub problem: String,
    /// How to correct it.
    pub hint: String,
}

/// Occurs when a formula has no value.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoValue {
    /// Occurs when a metric was not measured.
    #[error("`{0}` was not measured")]
    Absent(String),
    /// Occurs when the result is not a finite number, for example a division by 0 or a packet
    /// size that is not valid for the link.
    #[error("`{0}` has no finite value")]
    NotFinite(String),
}

impl Formula {
    /// Returns the metrics of its own arm that the formula uses.
    pub fn metrics(&self) -> Vec<&Metric> {
        let mut found = Vec::new();
        self.root.walk(&mut |metric, arm| {
            if arm.is_none() {
                found.push(metric);
            }
        });
        found
    }

    /// Returns the metrics of other arms that it uses, each with its arm.
    pub fn of_others(&self) -> Vec<(&Metric, &str)> {
        let mut found = Vec::new();
        self.root.walk(&mut |metric, arm| {
            found.extend(arm.map(|arm| (metric, arm)));
        });
        found
    }

    /// Returns its own arm's metrics and those of other arms that it uses, under the names by
    /// which the formula refers to them.
    pub fn figures_of<'m>(
        &self,
        own: &BTreeMap<String, f64>,
        other: impl Fn(&str) -> Option<&'m BTreeMap<String, f64>>,
    ) -> BTreeMap<String, f64> {
        let mut all = own.clone();
        for (metric, arm) in self.of_others() {
            let name = metric.to_string();
            if let Some(value) = other(arm).and_then(|metrics| metrics.get(&name)) {
                all.insert(format!("{name}@{arm}"), *value);
            }
        }
        all
    }

    /// Returns the value, computed from `metrics`.
    pub fn value(&self, metrics: &BTreeMap<String, f64>) -> Result<f64, NoValue> {
        let value = self.root.value(metrics)?;
        if value.is_finite() {
            Ok(value)
        } else {
            Err(NoValue::NotFinite(self.text.clone()))
        }
    }
}

impl FromStr for Formula {
    type Err = FormulaError;

    fn from_str(text: &str) -> Result<Self, FormulaError> {
        let root = parse::parse(text)?;
        Ok(Self {
            text: text.trim().to_owned(),
            root,
        })
    }
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Expression {
    fn walk<'a>(&'a self, tell: &mut impl FnMut(&'a Metric, Option<&'a str>)) {
        match self {
            Self::Number(_) => {}
            Self::Metric(metric, arm) => tell(metric, arm.as_deref()),
            Self::Negative(inner) => inner.walk(tell),
            Self::Binary(_, left, right) => {
                left.walk(tell);
                right.walk(tell);
            }
            Self::Call(_, _, arguments) => {
                for argument in arguments {
                    argument.walk(tell);
                }
            }
        }
    }

    fn value(&self, metrics: &BTreeMap<String, f64>) -> Result<f64, NoValue> {
        Ok(match self {
            Self::Number(number) => *number,
            Self::Metric(metric, arm) => {
                let name = match arm {
                    Some(arm) => format!("{metric}@{arm}"),
                    None => metric.to_string(),
                };
                let value = metrics.get(&name).copied();
                value.ok_or(NoValue::Absent(name))?
            }
            Self::Negative(inner) => -inner.value(metrics)?,
            Self::Binary(operator, left, right) => {
                let (left, right) = (left.value(metrics)?, right.value(metrics)?);
                match operator {
                    Operator::Add => left + right,
                    Operator::Subtract => left - right,
                    Operator::Multiply => left * right,
                    Operator::Divide => left / right,
                }
            }
            Self::Call(function, layer, arguments) => {
                let values: Result<Vec<f64>, NoValue> = arguments
                    .iter()
                    .map(|argument| argument.value(metrics))
                    .collect();
                function.value(layer.as_ref(), &values?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> f64 {
        let formula: Formula = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
        formula.value(&BTreeMap::new()).unwrap()
    }

    #[test]
    fn arithmetic_follows_the_usual_order() {
        assert_eq!(value("1 + 2 * 3 - 4 / 2"), 5.0);
        assert_eq!(value("(1 + 2) * -3"), -9.0);
        assert_eq!(value("10 - 3 - 2"), 5.0);
        assert_eq!(value("8 / 4 / 2"), 1.0);
        assert_eq!(value("-(2.5)"), -2.5);
        assert_eq!(
            value("max(1, 2) + min(3, 4) + floor(2.7) + round(2.5)"),
            10.0
        );
    }

    #[test]
    fn a_value_that_does_not_exist_is_not_replaced() {
        for text in [
            "max(wire-bytes(adsl:pppoa-vc, 0.5), 3)",
            "min(3, ln(-1))",
            "ip-ceiling(adsl:pppoa-vc, -5, 1500)",
            "packets-per-second(adsl:pppoa-vc, -5, 1500)",
            "payload(adsl:pppoa-vc, -5)",
        ] {
            let formula: Formula = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            let value = formula.value(&BTreeMap::new());
            assert_eq!(value, Err(NoValue::NotFinite(text.to_owned())));
        }
    }

    #[test]
    fn metrics_are_looked_up() {
        let formula: Formula = "63712 * 8 / upload1.rtt.interactive.mean_ms"
            .parse()
            .unwrap();
        let name = "upload1.rtt.interactive.mean_ms".to_owned();
        assert_eq!(formula.metrics()[0].to_string(), name);
        let metrics = BTreeMap::from([(name.clone(), 1150.0)]);
        let kbit = formula.value(&metrics).unwrap();
        assert!((kbit - 443.2).abs() < 0.05, "{kbit}");
        assert_eq!(
            formula.value(&BTreeMap::new()),
            Err(NoValue::Absent(name.clone()))
        );
        let zero = BTreeMap::from([(name, 0.0)]);
        assert!(matches!(formula.value(&zero), Err(NoValue::NotFinite(_))));
    }

    #[test]
    fn figures_of_another_arm_are_looked_up_there() {
        let formula: Formula = "1.5 * connect.mice.mean_s@mice-alone - util.up.ratio"
            .parse()
            .unwrap();
        assert_eq!(formula.metrics().len(), 1);
        assert_eq!(formula.of_others()[0].1, "mice-alone");
        let own = BTreeMap::from([
            ("util.up.ratio".to_owned(), 0.5),
            ("connect.mice.mean_s".to_owned(), 9.0),
        ]);
        let other = BTreeMap::from([("connect.mice.mean_s".to_owned(), 2.0)]);
        let all = formula.figures_of(&own, |arm| (arm == "mice-alone").then_some(&other));
        assert_eq!(formula.value(&all), Ok(2.5));
        let absent = formula.value(&own).unwrap_err();
        assert_eq!(
            absent,
            NoValue::Absent("connect.mice.mean_s@mice-alone".into())
        );
        assert!("util.up.ratio@".parse::<Formula>().is_err());
    }

    #[test]
    fn a_hyphen_belongs_to_the_name() {
        let formula: Formula = "a-b.rtt.in-ner.max_ms - 1".parse().unwrap();
        assert_eq!(formula.metrics()[0].subject, "in-ner");
    }

    #[test]
    fn link_layer_functions_answer() {
        assert_eq!(value("wire-bytes(adsl:bridged-vc-fcs, 1500)"), 1696.0);
        assert_eq!(value("wire-bytes(adsl:routed-vc, 40)"), 53.0);
        let ceiling = value("ip-ceiling(adsl:bridged-vc-fcs, 2000, 1500)");
        assert!((ceiling - 1768.868).abs() < 0.001, "{ceiling}");
        assert_eq!(value("bandwidth-ratio(2000, 500, 1696, 106)"), 0.25);
        assert_eq!(value("atm-payload(512)"), 463.0);
        let ms = value("serialisation(adsl:bridged-vc-fcs, 512, 1500)");
        assert!((ms - 26.5).abs() < 1e-5, "{ms}");
    }

    #[test]
    fn wrong_formulas_say_what_would_be_right() {
        for (text, part) in [
            ("", "empty"),
            ("1 +", "ends"),
            ("1 2", "operator"),
            ("(1", "`)`"),
            ("1 )", "`)`"),
            ("wirebytes(adsl:pppoa-vc, 40)", "did you mean `wire-bytes`"),
            ("wire-bytes(adsl:pppoa-cv, 40)", "adsl:pppoa-vc"),
            ("wire-bytes(40)", "link layer"),
            ("wire-bytes(adsl:pppoa-vc)", "1 number"),
            ("atm-payload(1, 2)", "1 number"),
            ("rtt.x.max_s", "max_ms"),
            ("1 # 2", "`#`"),
            ("1.2.3", "number"),
        ] {
            let error = text.parse::<Formula>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        let deep = "(".repeat(100_000);
        assert!(deep.parse::<Formula>().is_err());
        let minus = "-".repeat(3_000) + "1";
        assert!(minus.parse::<Formula>().is_err());
    }
}
