// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate survey`: counts the packets of a device by protocol, port, size and time, and shows
//! how full the line is.

mod data;
mod seen;
mod tables;
mod text;

use seen::{Second, Seen};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use weirgate_bpf::{Survey, SurveyLink};
use weirgate_console::exit::{Failure, Outcome, Status};
use weirgate_console::measurement::RunFolder;
use weirgate_console::output;
use weirgate_console::runtime::in_runtime;
use weirgate_kernel::{Kernel, Promiscuous};
use weirgate_linklayer::{Framing, LinkLayer};
use weirgate_policy::Mac;
use weirgate_state::DeviceName;
use weirgate_units::{ParseError, Rate, Span};

/// The device to observe, and the options.
#[derive(clap::Args)]
pub struct Arguments {
    /// The device.
    #[arg(value_parser = device)]
    device: DeviceName,
    /// How long to count; Ctrl-C ends it earlier and prints the counts so far.
    #[arg(long = "for", value_name = "TIME", default_value = "1min", value_parser = length)]
    time: Duration,
    /// The line's rate, to calculate how full it was.
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,
    /// The link layer by its name in policies, such as `adsl:bridged-llc` or `ethernet`; the line's
    /// load then includes its overhead for each packet.
    #[arg(long, value_name = "LAYER", value_parser = layer)]
    link: Option<LinkLayer>,
    /// The device is at a switch's mirror port: it receives copies of all frames of a router.
    ///
    /// Packets from this Ethernet address of the router count as leaving, all others as arriving.
    /// The device is promiscuous meanwhile, which also needs CAP_NET_RAW.
    #[arg(long, value_name = "MAC")]
    mirror: Option<Mac>,
    /// Store the arguments, the counts of every second and the result in a new folder.
    #[arg(long, value_name = "FOLDER")]
    write: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn device(text: &str) -> Result<DeviceName, String> {
    DeviceName::try_from(text.to_owned())
}

fn layer(text: &str) -> Result<LinkLayer, String> {
    LinkLayer::named(text).map_err(|error| error.to_string())
}

/// Converts a link layer to the parameters of the counting program.
fn link(layer: &LinkLayer) -> SurveyLink {
    let (piece, piece_wire, kept) = match layer.framing() {
        Framing::None => (0, 0, true),
        Framing::Atm => (48, 53, false),
        Framing::Ptm => (64, 1, true),
    };
    SurveyLink {
        overhead: layer.overhead(),
        smallest: layer.mpu(),
        piece,
        piece_wire,
        kept,
    }
}

fn length(text: &str) -> Result<Duration, String> {
    let span: Span = text
        .parse()
        .map_err(|error: ParseError| error.to_string())?;
    let length = Duration::from_nanos(span.as_nanos());
    if length < Duration::from_secs(1) {
        return Err(String::from("1s at least"));
    }
    Ok(length)
}

/// `weirgate survey`.
pub fn run(arguments: &Arguments) -> Outcome {
    in_runtime(async {
        let device = arguments.device.to_string();
        let devices = Kernel::open()?.overview().await?;
        let number = devices.iter().find(|one| one.name == device);
        let number = number
            .map(|one| one.index)
            .ok_or_else(|| Failure::Input(format!("weirgate: there is no device `{device}`")))?;
        let link = arguments.link.as_ref().map_or(SurveyLink::NONE, link);
        let router = arguments.mirror.map(|Mac(address)| address);
        let promiscuous = router.map(|_| Promiscuous::on(number)).transpose();
        let _promiscuous = promiscuous.map_err(|error| {
            let hint = "a mirror port needs a promiscuous device, and that needs CAP_NET_RAW";
            Failure::Input(format!("weirgate: {device}: {error}\n  {hint}"))
        })?;
        let survey = Survey::open(number, &link, router).map_err(|error| {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            let hint = "examining packets needs CAP_BPF, CAP_PERFMON and a kernel with type \
                        information (CONFIG_DEBUG_INFO_BTF)";
            Failure::Input(format!("weirgate: {first}\n  {hint}"))
        })?;
        // Create the folder first, so that nothing is counted that could not be stored.
        let kept = arguments
            .write
            .as_deref()
            .map(RunFolder::make)
            .transpose()?;
        output::note(&format!(
            "weirgate: counts on {device} for {:.0} s; Ctrl-C ends it",
            arguments.time.as_secs_f64()
        ));
        let seen = look(&survey, arguments, device).await?;
        if let Some(kept) = kept {
            kept.result(&text::report(&seen), &data::document(&seen))?;
            kept.file("seconds.csv", &data::seconds(&seen))?;
            kept.file("gaps.csv", &data::gaps(&seen.directions))?;
        }
        let text = if arguments.json {
            data::document(&seen).to_string()
        } else {
            text::report(&seen)
        };
        output::data(&text)?;
        Ok(Status::Done)
    })
}

async fn look(survey: &Survey, arguments: &Arguments, device: String) -> Result<Seen, Failure> {
    let wrong = |error: weirgate_bpf::BpfError| Failure::Other(error.into());
    let mut int = signal(SignalKind::interrupt())?;
    let mut term = signal(SignalKind::terminate())?;
    let start = Instant::now();
    let mut seconds = Vec::new();
    let mut before = ([0, 0], [0, 0], start);
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    ticks.tick().await;
    let rest = tokio::time::sleep(arguments.time);
    tokio::pin!(rest);
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                let directions = survey.directions().map_err(wrong)?;
                let bytes = [directions[0].all.bytes, directions[1].all.bytes];
                let wire = [directions[0].wire, directions[1].wire];
                let at = Instant::now();
                let since = |now: [u64; 2], then: [u64; 2]| [now[0] - then[0], now[1] - then[1]];
                seconds.push(Second {
                    bytes: since(bytes, before.0),
                    wire: since(wire, before.1),
                    time: at - before.2,
                });
                before = (bytes, wire, at);
            }
            () = &mut rest => break,
            _ = int.recv() => break,
            _ = term.recv() => break,
        }
    }
    Ok(Seen {
        device,
        time: start.elapsed(),
        rate: arguments.rate,
        link: arguments.link,
        directions: survey.directions().map_err(wrong)?,
        // Read the services first: they are part of the protocols, whose counts must not be
        // smaller.
        services: survey.services().map_err(wrong)?,
        protocols: survey.protocols().map_err(wrong)?,
        seconds,
    })
}
