// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The receivers of the metrics that `weirgate watch` sends.

use std::path::PathBuf;
use std::time::Duration;
use weirgate_console::exit::Failure;
use weirgate_units::Arrange as _;
use weirgate_units::{ParseError, Span};
use weirgate_watch::{Kind, Receiver, Sending};

/// The options for sending.
#[derive(clap::Args)]
#[group(skip)]
pub struct Arguments {
    /// Send all metrics by Prometheus remote write 1.0; FILE holds the value of `Authorization`,
    /// such as `Bearer TOKEN`; may be repeated.
    #[arg(long, value_name = "URL[,FILE]", value_parser = remote_write)]
    remote_write: Vec<Receiver>,
    /// Send all metrics to an OpenTelemetry collector by OTLP over HTTP; may be repeated.
    #[arg(long, value_name = "URL[,FILE]", value_parser = otlp)]
    otlp: Vec<Receiver>,
    /// The time between two transmissions.
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = every)]
    send_every: Duration,
    /// Add a label to all metrics that are sent, besides `job` and `instance`, which default to
    /// `weirgate` and the machine's name; may be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = label)]
    send_label: Vec<(String, String)>,
    /// Trust the authorities of this file (PEM) for what is sent, instead of the system's.
    #[arg(long, value_name = "FILE")]
    send_ca: Option<PathBuf>,
}

fn remote_write(text: &str) -> Result<Receiver, String> {
    Receiver::parse(Kind::RemoteWrite, text)
}

fn otlp(text: &str) -> Result<Receiver, String> {
    Receiver::parse(Kind::Otlp, text)
}

fn every(text: &str) -> Result<Duration, String> {
    let span: Span = text
        .parse()
        .map_err(|error: ParseError| error.to_string())?;
    let every = Duration::from_nanos(span.as_nanos());
    if every < Duration::from_secs(1) || every > Duration::from_hours(1) {
        return Err(String::from("from 1s to 1h"));
    }
    Ok(every)
}

/// Parses `NAME=VALUE`, where the name is valid for Prometheus.
fn label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("say NAME=VALUE")?;
    let fine = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let digit = name.starts_with(|letter: char| letter.is_ascii_digit());
    if name.is_empty() || digit || name.starts_with("__") || !name.chars().all(fine) {
        return Err(format!(
            "`{}` is no name of a label: letters, digits and `_`, no digit and no `__` first",
            name.escape_debug()
        ));
    }
    if value.is_empty() || value.len() > 200 || value.chars().any(char::is_control) {
        return Err(String::from("a label's value has 1 to 200 letters"));
    }
    Ok((name.to_owned(), value.to_owned()))
}

impl Arguments {
    /// Returns the receivers, interval and labels.
    pub fn sending(&self) -> Result<Sending, Failure> {
        let mut labels = self.send_label.clone();
        let machine = rustix::system::uname();
        let machine = machine.nodename().to_string_lossy();
        for (name, value) in [("job", "weirgate"), ("instance", &*machine)] {
            if labels.iter().all(|(other, _)| other != name) {
                labels.push((name.to_owned(), value.to_owned()));
            }
        }
        labels.arrange();
        let twice = labels.windows(2).find(|pair| pair[0].0 == pair[1].0);
        if let Some(pair) = twice {
            return Err(Failure::Input(format!(
                "weirgate: the label `{}` is given twice",
                pair[0].0
            )));
        }
        let receivers = self.remote_write.iter().chain(&self.otlp);
        Ok(Sending {
            receivers: receivers.cloned().collect(),
            every: self.send_every,
            labels,
            authorities: self.send_ca.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_read_or_refused() {
        assert_eq!(
            label("site=a=b"),
            Ok((String::from("site"), String::from("a=b")))
        );
        for wrong in [
            "",
            "site",
            "=a",
            "1a=b",
            "__name__=x",
            "a-b=c",
            "a=",
            "a=\n",
        ] {
            label(wrong).unwrap_err();
        }
    }
}
