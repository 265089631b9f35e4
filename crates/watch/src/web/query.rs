// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Queries of the history: the part of the URL after `?`.

use weirgate_history::MAX_NAME;

/// The largest number of series in an answer.
const SERIES: usize = 64;
/// The longest query in bytes.
pub(crate) const LONGEST_QUERY: usize = 16_384;

/// A query of the history. Times are in milliseconds of Unix time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// The start.
    pub from: i64,
    /// The end, which is not before the start.
    pub to: i64,
    /// The length of a step in milliseconds; 0 returns values as recorded.
    pub step: i64,
    /// The names of the series.
    pub series: Vec<String>,
}

impl Query {
    /// Parses `from`, `to` and `step` in milliseconds, and any number of `series`. An error
    /// describes the problem.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST_QUERY {
            return Err(format!("the query has more than {LONGEST_QUERY} bytes"));
        }
        let mut query = Self {
            from: i64::MIN,
            to: i64::MAX,
            ..Self::default()
        };
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let number = || {
                let parsed = value.parse::<i64>();
                parsed.map_err(|_| format!("`{name}` takes a number of milliseconds"))
            };
            match name {
                "from" => query.from = number()?,
                "to" => query.to = number()?,
                "step" => query.step = number()?,
                "series" => {
                    let series = decoded(name, value, MAX_NAME)?;
                    // An answer contains each series once.
                    if !query.series.contains(&series) {
                        query.series.push(series);
                    }
                }
                _ => return Err(String::from("a query has from, to, step and series")),
            }
        }
        if query.series.len() > SERIES {
            return Err(format!("more than {SERIES} series at once"));
        }
        if query.from > query.to {
            return Err(String::from("`from` is later than `to`"));
        }
        Ok(query)
    }
}

/// Decodes percent-encoding; the decoded value may have at most `longest` bytes.
pub(crate) fn decoded(name: &str, text: &str, longest: usize) -> Result<String, String> {
    let wrong = || format!("`{name}` is not percent-encoded UTF-8");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || (rest.next()? as char).to_digit(16);
                let (high, low) = (digit().ok_or_else(wrong)?, digit().ok_or_else(wrong)?);
                (high * 16 + low) as u8
            }
            b'+' => b' ',
            other => other,
        });
    }
    let text = String::from_utf8(bytes).map_err(|_| wrong())?;
    if text.len() > longest {
        return Err(format!("`{name}` has more than {longest} bytes"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn queries_are_read_or_refused() {
        let query =
            Query::parse("from=1&to=5000&step=60&series=a%7Bb%3D%22c%22%7D&series=d+e").unwrap();
        assert_eq!((query.from, query.to, query.step), (1, 5000, 60));
        assert_eq!(query.series, ["a{b=\"c\"}", "d e"]);
        for wrong in [
            "from=x",
            "from=2&to=1",
            "series=%f",
            "series=%ff",
            "delete=1",
            "from=99999999999999999999",
        ] {
            Query::parse(wrong).unwrap_err();
        }
        let twice = Query::parse("series=a&series=b&series=a").unwrap();
        assert_eq!(twice.series, ["a", "b"]);
        let many = (0..=SERIES).map(|number| format!("series={number}&"));
        Query::parse(&many.collect::<String>()).unwrap_err();
        Query::parse(&"x".repeat(LONGEST_QUERY + 1)).unwrap_err();
    }

    proptest! {
        #[test]
        fn any_query_does_no_harm(text in "\\PC{0,200}") {
            let _ = Query::parse(&text);
        }
    }
}
