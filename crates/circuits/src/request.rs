// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests for one circuit of a device, from options of a command or from a line of JSON with
//! the same names.

use crate::keys::KeyKind;
use crate::one::Asked;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use std::str::FromStr;
use weirgate_units::Rate;

/// The requested state of one circuit. Omitted fields leave the circuit unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[cfg_attr(feature = "options", derive(clap::Args))]
pub struct Wanted {
    /// The device.
    pub device: String,
    /// The circuit's identifier.
    pub circuit: String,
    /// The site above the circuit, by name; an empty name for the link itself.
    #[cfg_attr(feature = "options", arg(long, value_name = "SITE"))]
    pub parent: Option<String>,
    /// The plan that sets the circuit's rates; an empty name for no plan.
    #[cfg_attr(feature = "options", arg(long))]
    pub plan: Option<String>,
    /// All addresses and prefixes of the circuit, separated by commas; an empty text for none.
    #[cfg_attr(feature = "options", arg(long, value_name = "ADDRESSES"))]
    pub addresses: Option<String>,
    /// All PPPoE sessions of the circuit: a number such as 77, or with the subscriber's MAC
    /// address, such as 77:02:00:5e:10:00:01.
    #[cfg_attr(feature = "options", arg(long, value_name = "SESSIONS"))]
    pub session: Option<String>,
    /// All VLANs of the circuit: the outer tag, such as 100, or both tags, such as 100.20.
    #[cfg_attr(feature = "options", arg(long, value_name = "VLANS"))]
    pub vlan: Option<String>,
    /// All MAC addresses of the circuit's devices.
    #[cfg_attr(feature = "options", arg(long, value_name = "MACS"))]
    pub mac: Option<String>,
    /// The guaranteed rate towards the subscriber, such as 5mbit.
    #[cfg_attr(feature = "options", arg(long, value_name = "RATE"))]
    #[serde(default, deserialize_with = "text")]
    pub down_min: Option<Rate>,
    /// The guaranteed rate from the subscriber.
    #[cfg_attr(feature = "options", arg(long, value_name = "RATE"))]
    #[serde(default, deserialize_with = "text")]
    pub up_min: Option<Rate>,
    /// The highest rate towards the subscriber, such as 100mbit.
    #[cfg_attr(feature = "options", arg(long, value_name = "RATE"))]
    #[serde(default, deserialize_with = "text")]
    pub down_max: Option<Rate>,
    /// The highest rate from the subscriber.
    #[cfg_attr(feature = "options", arg(long, value_name = "RATE"))]
    #[serde(default, deserialize_with = "text")]
    pub up_max: Option<Rate>,
    /// Whether the circuit is suspended: yes or no. A suspended circuit has 64 kbit/s in each
    /// direction.
    #[cfg_attr(feature = "options", arg(long, value_name = "YES"))]
    #[serde(default, deserialize_with = "text")]
    pub suspended: Option<Switch>,
}

/// `yes` or `no`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switch(bool);

impl FromStr for Switch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "yes" => Ok(Self(true)),
            "no" => Ok(Self(false)),
            _ => Err("say `yes` or `no`".to_owned()),
        }
    }
}

/// Deserialises a value from the text form that the command line uses.
fn text<'de, D: Deserializer<'de>, T: FromStr<Err: std::fmt::Display>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    let read = |text: String| {
        let value = text.parse();
        value.map_err(|why| D::Error::custom(format!("`{text}`: {why}")))
    };
    text.map(read).transpose()
}

impl Wanted {
    /// Reads the keys. An error says what is wrong with a key, and what to write instead.
    pub fn asked(&self) -> Result<Asked, String> {
        let mut keys = [const { None }; KeyKind::ALL.len()];
        let texts = [&self.addresses, &self.session, &self.vlan, &self.mac];
        for ((to, kind), text) in keys.iter_mut().zip(KeyKind::ALL).zip(texts) {
            *to = text
                .as_deref()
                .map(|text| kind.read_all(text))
                .transpose()?;
        }
        Ok(Asked {
            site: self.parent.clone(),
            plan: self.plan.clone(),
            rates: [self.down_min, self.up_min, self.down_max, self.up_max],
            keys,
            suspended: self.suspended.map(|Switch(is)| is),
        })
    }
}

/// One circuit of a device.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Named {
    /// The device.
    pub device: String,
    /// The circuit's identifier.
    pub circuit: String,
}

/// A request, which is one line of JSON. `do` is the command, and the other fields have the
/// names of its options.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase")]
pub enum Request {
    /// Adds a circuit. An identical circuit is left alone.
    Add(Wanted),
    /// Changes the named fields of a circuit that exists.
    Change(Wanted),
    /// Removes a circuit. One that does not exist is no error.
    Remove(Named),
    /// Shows a circuit and its counters.
    Show(Named),
}

impl Request {
    /// Reads a line. An error says what is wrong, and shows a correct line.
    pub fn read(line: &str) -> Result<Self, String> {
        serde_json::from_slice(line.as_bytes()).map_err(|error| {
            format!(
                "{error}; write a line such as \
                 {{\"do\":\"remove\",\"device\":\"eth0\",\"circuit\":\"1043\"}}"
            )
        })
    }
}
