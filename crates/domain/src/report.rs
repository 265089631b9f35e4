// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The text of a domain's check: promises per port, the worst case of each service, on request
//! its derivation, and the promises that cannot be kept.

use crate::{Check, Delay, Domain, Outcome, Port, Service};
use std::fmt;
use weirgate_policy::in_kbit;
use weirgate_units::Span;

/// A check and its domain, for display.
#[derive(Debug, Clone, Copy)]
pub struct Report<'c> {
    /// The domain.
    pub domain: &'c Domain,
    /// The check.
    pub check: &'c Check,
    /// Whether worst cases are derived port by port.
    pub details: bool,
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (domain, check) = (self.domain, self.check);
        // Routers with only circuits carry no promises.
        if domain.classes.is_empty() {
            return writeln!(f, "{}", counted(domain.routers.len(), "router"));
        }
        writeln!(
            f,
            "{}, {}, {}, {}, {}",
            counted(domain.routers.len(), "router"),
            counted(domain.links.len(), "link"),
            counted(domain.customers.len(), "customer"),
            counted(domain.classes.len(), "class"),
            counted(domain.services.len(), "service"),
        )?;
        let assured = |class: &crate::Class| matches!(class.behaviour, crate::Behaviour::Af(_));
        let levelled =
            |class: &crate::Class| matches!(class.behaviour, crate::Behaviour::Drt { .. });
        let blind = self.domain.routers.iter().filter(|(_, one)| !one.kit);
        let blind: Vec<&str> = blind.map(|(name, _)| name.as_str()).collect();
        if domain.classes.values().any(assured) && !blind.is_empty() {
            writeln!(
                f,
                "AF's drop precedences are not distinguished at {}: `engine = \"kit\"` there \
                 distinguishes them, if the kernel has BPF qdiscs (Linux 6.16).",
                blind.join(", ")
            )?;
        }
        if domain.classes.values().any(levelled) && !blind.is_empty() {
            writeln!(
                f,
                "DRT's importance levels are not distinguished at {}: `engine = \"kit\"` there \
                 distinguishes them, if the kernel has BPF qdiscs (Linux 6.16).",
                blind.join(", ")
            )?;
        }
        for note in &check.notes {
            writeln!(f, "{note}")?;
        }
        self.loads(f)?;
        for (at, service) in domain.services.iter().enumerate() {
            match &check.delays[at] {
                Some(delay) if self.details => service_text(f, service, delay, &check.ports)?,
                Some(delay) => {
                    // An empty line precedes the first one.
                    if at == 0 {
                        writeln!(f)?;
                    }
                    service_line(f, service, delay)?;
                }
                None => {}
            }
        }
        if check.findings.is_empty() {
            let reckoned = domain.services.iter().all(|one| one.smallest.is_some());
            let while_ = if reckoned {
                ""
            } else {
                ", if packets are no smaller than assumed"
            };
            let crowded = check.loads.iter().any(crate::Load::is_oversubscribed);
            let at_once = if crowded {
                ", but not all of an over-subscribed class at once"
            } else {
                ""
            };
            return writeln!(f, "\nAll promises can be kept{at_once}{while_}.");
        }
        writeln!(f, "\nWhat cannot be kept:")?;
        for finding in &check.findings {
            writeln!(f, "  line {}: {}", finding.line, finding.what)?;
            let mut lead = "smallest change";
            for change in &finding.changes {
                writeln!(f, "    {lead}: {change}")?;
                lead = "or";
            }
        }
        Ok(())
    }
}

impl Report<'_> {
    fn loads(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The loads of a port are adjacent.
        for loads in self.check.loads.chunk_by(|one, next| one.port == next.port) {
            let port = &self.check.ports[loads[0].port.0];
            write!(
                f,
                "\n{} of {}, towards {}, {} on the wire:",
                port.device,
                port.router,
                port.towards,
                in_kbit(port.rate)
            )?;
            let each = loads.iter().map(|load| {
                let used = load.factor() * 100.0;
                let promised = in_kbit(load.promised);
                if self.details {
                    let guaranteed = in_kbit(load.guaranteed);
                    format!(
                        "\n  {}: {promised} promised of {guaranteed} ({used:.1} %)",
                        load.class
                    )
                } else {
                    format!(" {} {promised} ({used:.1} %)", load.class)
                }
            });
            let each: Vec<String> = each.collect();
            write!(f, "{}", each.join(if self.details { "" } else { "," }))?;
            if self.details {
                writeln!(f)?;
            }
        }
        if self.details { Ok(()) } else { writeln!(f) }
    }
}

/// Describes a service: how much, from whom, to whom.
fn whose(service: &Service) -> String {
    format!(
        "{}: {} from {} to {} in `{}`",
        service.name,
        in_kbit(service.rate),
        service.from,
        service.to,
        service.class
    )
}

/// Returns what was promised about all of a month, in words; empty for nothing.
fn over_a_month(service: &Service) -> String {
    let share = service.availability;
    let share = share.map(|share| format!("; available {share} of each month"));
    let outage = service.outage;
    let outage = outage.map(|outage| format!("; no outage longer than {outage}"));
    share.unwrap_or_default() + &outage.unwrap_or_default()
}

/// Writes a service and its times in one line.
fn service_line(f: &mut fmt::Formatter<'_>, service: &Service, delay: &Delay) -> fmt::Result {
    write!(f, "{}", whose(service))?;
    for (what, promised, worst) in [
        ("delay", service.delay, delay.worst()),
        ("jitter", service.jitter, delay.variation()),
    ] {
        if let Some(promised) = promised {
            let outcome = Outcome::of(Some(promised), worst);
            write!(
                f,
                "; {what} {} of {promised}, {outcome}",
                milliseconds(worst)
            )?;
        }
    }
    writeln!(f, "{}", over_a_month(service))
}

fn service_text(
    f: &mut fmt::Formatter<'_>,
    service: &Service,
    delay: &Delay,
    ports: &[Port],
) -> fmt::Result {
    writeln!(f, "\n{}", whose(service))?;
    promise(f, "delay", service.delay, delay.worst())?;
    promise(f, "jitter", service.jitter, delay.variation())?;
    if let Some(loss) = service.loss {
        writeln!(
            f,
            "  loss: promised at most {loss}; no queue overflows, because each has room for all \
             bursts"
        )?;
    }
    if let Some(promised) = over_a_month(service).strip_prefix("; ") {
        writeln!(f, "  {promised}: `weirgate domain audit` judges it")?;
    }
    writeln!(
        f,
        "    {:>10}  the line of {}: {:.2} ms on it, {:.2} ms travelling; {} itself decides what waits there",
        milliseconds(delay.first_line()),
        service.from,
        delay.first_sending.as_millis_f64(),
        delay.first_travelling.as_millis_f64(),
        service.from
    )?;
    for hop in &delay.hops {
        let port = &ports[hop.port.0];
        writeln!(
            f,
            "    {:>10}  {} of {}: {:.2} ms on the line, {:.2} ms travelling, waiting:",
            milliseconds(hop.wait + hop.sending + hop.travelling),
            port.device,
            port.router,
            hop.sending.as_millis_f64(),
            hop.travelling.as_millis_f64()
        )?;
        for (what, time) in &hop.steps {
            writeln!(f, "    {:>10}    {what}", milliseconds(*time))?;
        }
    }
    Ok(())
}

fn promise(
    f: &mut fmt::Formatter<'_>,
    what: &str,
    promised: Option<Span>,
    worst: Span,
) -> fmt::Result {
    let outcome = Outcome::of(promised, worst);
    let promised = promised.map_or(String::new(), |span| format!("promised {span}, "));
    writeln!(
        f,
        "  {what}: {promised}at worst {}: {outcome}",
        milliseconds(worst)
    )
}

fn milliseconds(span: Span) -> String {
    format!("{:.2} ms", span.as_millis_f64())
}

fn counted(count: usize, what: &str) -> String {
    match (count, what) {
        (1, _) => format!("1 {what}"),
        (_, "class") => format!("{count} classes"),
        _ => format!("{count} {what}s"),
    }
}
