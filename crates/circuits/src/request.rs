// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is asked for one circuit of a device: by the options of a command, or by a line of
//! JSON that has the same words.

use crate::key::KeyKind;
use crate::one::Asked;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use std::str::FromStr;
use weirgate_units::Rate;

/// One circuit of a device, and what is to be of it. What is not said stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[cfg_attr(feature = "options", derive(clap::Args))]
pub struct Wanted {
    /// The device.
    pub device: String,
    /// The circuit's identifier.
    pub circuit: String,
    /// The site above it, by name; an empty one for the link itself.
    #[cfg_attr(feature = "options", arg(long, value_name = "SITE"))]
    pub parent: Option<String>,
    /// Its plan, whose rates it has; an empty one for none.
    #[cfg_attr(feature = "options", arg(long))]
    pub plan: Option<String>,
    /// All its addresses and prefixes, with commas between them; an empty text for none.
    #[cfg_attr(feature = "options", arg(long, value_name = "ADDRESSES"))]
    pub addresses: Option<String>,
    /// All its PPPoE sessions: a number such as 77, or with the subscriber's MAC, such as
    /// 77:02:00:5e:10:00:01.
    #[cfg_attr(feature = "options", arg(long, value_name = "SESSIONS"))]
    pub session: Option<String>,
    /// All its VLANs: the outer tag's such as 100, or with the inner tag's, such as 100.20.
    #[cfg_attr(feature = "options", arg(long, value_name = "VLANS"))]
    pub vlan: Option<String>,
    /// All MACs of its devices.
    #[cfg_attr(feature = "options", arg(long, value_name = "MACS"))]
    pub mac: Option<String>,
    /// What it is guaranteed towards the subscriber, such as 5mbit.
    #[cfg_attr(feature = "options", arg(long, value_name = "RATE"))]
    #[serde(default, deserialize_with = "text")]
    pub down_min: Option<Rate>,
    /// What it is guaranteed from the subscriber.
    #[cfg_attr(feature = "options", arg(long, value_name = "RATE"))]
    #[serde(default, deserialize_with = "text")]
    pub up_min: Option<Rate>,
    /// What it never exceeds towards the subscriber, such as 100mbit.
    #[cfg_attr(feature = "options", arg(long, value_name = "RATE"))]
    #[serde(default, deserialize_with = "text")]
    pub down_max: Option<Rate>,
    /// What it never exceeds from the subscriber.
    #[cfg_attr(feature = "options", arg(long, value_name = "RATE"))]
    #[serde(default, deserialize_with = "text")]
    pub up_max: Option<Rate>,
    /// Whether it is suspended: it then has 64 kbit/s in either direction.
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

/// A value as the command line has it.
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
    /// The same with its keys read; says of every one what is wrong and what would be right.
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

/// A request, which is one line of JSON. `do` says which command it is, and the other fields
/// are called as its options.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase")]
pub enum Request {
    /// Makes a circuit; one that is there and the same is left alone.
    Add(Wanted),
    /// Changes what is named of one that is there.
    Change(Wanted),
    /// Takes it away; one that is not there is gone already.
    Remove(Named),
    /// Shows what it has and has had.
    Show(Named),
}

impl Request {
    /// Reads a line; says what is wrong and what would be right.
    pub fn read(line: &str) -> Result<Self, String> {
        serde_json::from_slice(line.as_bytes()).map_err(|error| {
            format!(
                "{error}; write a line such as \
                 {{\"do\":\"remove\",\"device\":\"eth0\",\"circuit\":\"1043\"}}"
            )
        })
    }
}
