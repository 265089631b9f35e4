// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate import`: converts the files of other tools.

use clap::Subcommand;
use std::path::{Path, PathBuf};
use weirgate_aqm::INSTALLED;
use weirgate_bpf::{kit_number, most_capabilities};
use weirgate_console::exit::{Failure, Outcome, Status};
use weirgate_console::json::Document;
use weirgate_console::output;
use weirgate_console::source;
use weirgate_document::Problem;
use weirgate_import::{Imported, libreqos, sqm, uci};

/// The tool that wrote the files.
#[derive(Subcommand)]
pub enum From {
    /// Import the configuration of sqm-scripts.
    Sqm {
        /// The file: /etc/config/sqm, or /etc/sqm/DEVICE.iface.conf.
        file: PathBuf,
        /// The device to import, if the file has several; or the device of an .iface.conf
        /// that has another name.
        #[arg(long)]
        device: Option<String>,
    },
    /// Import circuits and configuration of LibreQoS.
    Libreqos {
        /// The circuits: ShapedDevices.csv.
        devices: PathBuf,
        /// The configuration: lqos.conf, or ispConfig.py of older versions.
        configuration: PathBuf,
    },
    /// Import a policy from OpenWrt's configuration; nothing is left out.
    ///
    /// The option `enabled` of `config weirgate` concerns only the service. `weirgate
    /// export --uci` writes such a file.
    Uci {
        /// The file.
        #[arg(default_value = UCI)]
        file: PathBuf,
    },
}

/// The path of the file on OpenWrt.
const UCI: &str = "/etc/config/weirgate";

/// Prints the policy and lists what was left out.
pub fn run(from: &From, document: &Document) -> Outcome {
    let imported = match from {
        From::Sqm { file, device } => {
            let text = source::read(file)?;
            let device = device.as_deref().or_else(|| named_after(file));
            sqm::import(&text, device).map_err(|problems| refused([(file, &text, problems)]))
        }
        From::Libreqos {
            devices,
            configuration,
        } => {
            let texts = [source::read(devices)?, source::read(configuration)?];
            libreqos::import(&texts[0], &texts[1]).map_err(|[first, second]| {
                refused([
                    (devices, &texts[0], first),
                    (configuration, &texts[1], second),
                ])
            })
        }
        From::Uci { file } => return of_uci(file, document),
    };
    let Imported { policy, left_out } = imported?;
    for one in &left_out {
        document.note(&format!("weirgate: left out: {one}"));
    }
    print(document, policy, left_out)
}

/// Prints a policy, or puts it into the document with what was left out.
fn print(document: &Document, policy: String, left_out: Vec<String>) -> Outcome {
    if document.is_wanted() {
        document.put("left_out", left_out.into());
        document.put("policy", policy.into());
    } else {
        output::data(&policy)?;
    }
    Ok(Status::Done)
}

fn of_uci(file: &PathBuf, document: &Document) -> Outcome {
    let text = source::read(file)?;
    // The policy may name disciplines that are installed.
    weirgate_aqm::scan(Path::new(INSTALLED), kit_number());
    let configured = uci::import(&text, &most_capabilities())
        .map_err(|problems| refused([(file, &text, problems)]))?;
    if !configured.enabled {
        document.note(
            "weirgate: `config weirgate` is not enabled, so the service does not apply \
                      it",
        );
    }
    document.put("enabled", configured.enabled.into());
    print(document, configured.policy, Vec::new())
}

/// Returns the device of `/etc/sqm/DEVICE.iface.conf` from the file's name; its text does not
/// contain it.
fn named_after(file: &Path) -> Option<&str> {
    file.file_name()?.to_str()?.strip_suffix(".iface.conf")
}

/// Returns the failure that shows every problem of the files.
fn refused<const FILES: usize>(files: [(&PathBuf, &String, Vec<Problem>); FILES]) -> Failure {
    let files = files
        .into_iter()
        .filter(|(.., problems)| !problems.is_empty());
    let shown: Vec<String> = files
        .filter_map(|(file, text, problems)| {
            source::parse::<()>(file, text, |_| (None, problems)).err()
        })
        .map(|failure| failure.text())
        .collect();
    Failure::Input(shown.join("\n\n"))
}
