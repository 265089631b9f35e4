// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arguments about a discipline: its parameters, and the link it is for.

use crate::exit::{Failure, wrong};
use clap::Args;
use std::fmt::Write as _;
use weirgate_aqm::{Link, Settings};
use weirgate_linklayer::{DeviceKind, Framing, LinkLayer};
use weirgate_units::Rate;

/// The options that describe the link of a discipline.
#[derive(Args)]
pub struct LinkArguments {
    /// Shape to this rate on the wire.
    #[arg(long)]
    pub rate: Option<Rate>,
    /// The link layer, by name, such as adsl:bridged-vc-fcs.
    #[arg(long = "link", value_name = "LAYER")]
    pub layer: Option<String>,
    /// What the device counts in a packet's length: ethernet, pppoe, ppp, ...
    #[arg(long, default_value = "ethernet", value_name = "KIND")]
    pub device_kind: String,
}

impl LinkArguments {
    /// Sets what the options name in `link`, and the gate's rate in bytes a second.
    ///
    /// # Errors
    /// Fails if there is no such link layer or kind of device, or the rate is below 8 bit/s.
    pub fn apply(&self, link: &mut Link, gate: &mut u64) -> Result<(), Failure> {
        if let Some(name) = &self.layer {
            let layer = LinkLayer::named(name).map_err(wrong)?;
            let device = DeviceKind::named(&self.device_kind).ok_or_else(|| {
                let kinds: Vec<&str> = DeviceKind::ALL.iter().map(|kind| kind.name()).collect();
                wrong(format!(
                    "there is no kind of device `{}`; there are {}",
                    self.device_kind,
                    kinds.join(", ")
                ))
            })?;
            link.overhead_bytes = layer.overhead_on(device);
            link.mpu_bytes = layer.mpu();
            link.framing = match layer.framing() {
                Framing::None => 0,
                Framing::Atm => 1,
                Framing::Ptm => 2,
            };
        }
        if let Some(rate) = self.rate {
            let bytes = rate.as_bytes_per_second();
            if bytes == 0 {
                return Err(wrong("a rate must be at least 8 bit/s"));
            }
            *gate = bytes;
            link.rate_bytes_s = bytes;
        }
        Ok(())
    }
}

/// Sets parameters from `name=value`; every mistake is reported.
pub fn set(settings: &mut Settings, words: &[String]) -> Result<(), Failure> {
    let mut mistakes = String::new();
    for word in words {
        let outcome = match word.split_once('=') {
            Some((name, value)) => settings
                .set_text(name.trim(), value)
                .map_err(|error| error.to_string()),
            None => Err(format!("`{word}`: write name=value")),
        };
        if let Err(mistake) = outcome {
            // Writing to a String cannot fail.
            let _ = writeln!(mistakes, "weirgate: {mistake}");
        }
    }
    if mistakes.is_empty() {
        Ok(())
    } else {
        Err(Failure::Input(mistakes.trim_end().to_owned()))
    }
}
