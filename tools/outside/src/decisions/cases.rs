// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The compared cases: disciplines with their settings, and why decisions may differ.

use super::kernel::Replaced;
use anyhow::{Context as _, Result};
use weirgate_aqm::{Discipline, Link, Settings};

/// The largest packet, in bytes as an Ethernet device counts them.
const MTU: u32 = 1514;

/// If 15 ms are requested, the kernel's pie updates every four jiffies.
const UPDATE_NS: u64 = 16_000_000;

/// The exponent of RED's weight, which is a power of two in the kernel.
const WEIGHT_LOG: u32 = 9;

/// Changes of the kernel's pie where the kit follows RFC 8033 and the kernel does not.
const PIE: &[Replaced] = &[
    Replaced {
        file: "net/sched/sch_pie.c",
        from: "if ((vars->qdelay < params->target / 2) &&\n\t    (vars->prob < MAX_PROB / 5))",
        to: "if ((vars->qdelay_old << PSCHED_SHIFT < (params->target << PSCHED_SHIFT) / 2) &&\n\
             \t    (vars->prob < MAX_PROB / 5))",
        why: "whether the delay is below half the target is asked of the delay at the last \
              update (RFC 8033, section 4.1); the kernel's pie_drop_early() asks that of the \
              last packet that left",
    },
    Replaced {
        file: "net/sched/sch_pie.c",
        from: "if (vars->prob < oldprob) {",
        to: "if (vars->prob < oldprob || vars->prob > MAX_PROB) {",
        why: "a probability is one at most (RFC 8033, section 4.2); the kernel's \
              pie_calculate_probability() bounds it by what 64 bits hold, which is 256",
    },
    Replaced {
        file: "net/sched/sch_pie.c",
        from: "\t\tqdelay = vars->qdelay;\n\t\tqdelay_old = vars->qdelay_old;\n",
        to: "\t\tqdelay = min(vars->qdelay, PSCHED_NS2TICKS(10 * NSEC_PER_SEC));\n\
             \t\tqdelay_old = min(vars->qdelay_old, PSCHED_NS2TICKS(10 * NSEC_PER_SEC));\n",
        why: "a delay above 10 s counts as 10 s (aqm/pie.c, PIE_MOST_NS); the kernel's \
              pie_calculate_probability() has no such bound",
    },
    Replaced {
        file: "include/net/pie.h",
        from: "#define MAX_PROB\t(U64_MAX >> BITS_PER_BYTE)",
        to: "#define MAX_PROB\t(1ULL << 56)",
        why: "one is 2^56; the kernel's MAX_PROB is one less",
    },
    Replaced {
        file: "net/sched/sch_pie.c",
        from: "\talpha = ((u64)params->alpha * (MAX_PROB / PSCHED_TICKS_PER_SEC)) >> 4;\n\
               \tbeta = ((u64)params->beta * (MAX_PROB / PSCHED_TICKS_PER_SEC)) >> 4;\n",
        to: "\talpha = ((u64)params->alpha * (MAX_PROB / NSEC_PER_SEC)) >> 4;\n\
             \tbeta = ((u64)params->beta * (MAX_PROB / NSEC_PER_SEC)) >> 4;\n",
        why: "weights are for nanoseconds; the kernel's for units of 64 ns, which differs in the \
              tenth place",
    },
    Replaced {
        file: "net/sched/sch_pie.c",
        from: "\tdelta += alpha * (qdelay - params->target);\n\
               \tdelta += beta * (qdelay - qdelay_old);\n",
        to: "\tdelta += alpha * ((qdelay - params->target) << PSCHED_SHIFT);\n\
             \tdelta += beta * ((qdelay - qdelay_old) << PSCHED_SHIFT);\n",
        why: "delays are nanoseconds, for the same reason",
    },
    Replaced {
        file: "net/sched/sch_pie.c",
        from: "if ((vars->qdelay < params->target / 2) &&\n\
               \t    (vars->qdelay_old < params->target / 2) &&\n",
        to: "if ((vars->qdelay << PSCHED_SHIFT < (params->target << PSCHED_SHIFT) / 2) &&\n\
             \t    (vars->qdelay_old << PSCHED_SHIFT < (params->target << PSCHED_SHIFT) / 2) &&\n",
        why: "half the target is not rounded to units of 64 ns",
    },
    Replaced {
        file: "net/sched/sch_pie.c",
        from: "\tif (vars->accu_prob >= (MAX_PROB / 2) * 17)\n\t\treturn true;\n",
        to: "\tif (vars->accu_prob >= (MAX_PROB / 2) * 17) {\n\t\tvars->accu_prob = 0;\n\
             \t\treturn true;\n\t}\n",
        why: "a mark begins the count anew as a drop does (RFC 8033, section 5.1); the kernel's \
              pie_qdisc_enqueue() does so for a drop alone, where the count has reached 8.5",
    },
];

/// The kit's pie has no timer, and makes up for at most this many missed updates (`PIE_CATCH_UP`,
/// aqm/pie.c).
const CATCH_UP: u64 = 512;

/// The explanation of an episode that differs for that reason.
pub const PAUSE: &str = "after a pause of more than 512 updates the kit has made 512, while the \
    kernel's timer has made all: a high probability may not have come down yet (aqm/pie.c, \
    PIE_CATCH_UP)";

/// Changes of the kernel's RED where the kit's differs.
const RED: &[Replaced] = &[
    Replaced {
        file: "include/net/red.h",
        from: "\ts64 delta = ktime_us_delta(ktime_get(), v->qidlestart);\n",
        to: "\ts64 delta = 0;\n\n\tif (1)\n\t\treturn idle_average(v->qavg, p->Wlog, \
             ktime_get() - v->qidlestart);\n",
        why: "while the link is idle the average falls by the exact power of RED's paper, parts of \
              a packet among them; the kernel's red_calc_qavg_from_idle_time() halves it by a \
              table of tc's, and at first takes off a part that is too large",
    },
    Replaced {
        file: "include/net/red.h",
        from: "\treturn v->qavg + (backlog - (v->qavg >> p->Wlog));\n",
        to: "\treturn next_average(v->qavg, backlog, p->Wlog);\n",
        why: "the average has 16 binary places; the kernel's has as many as its weight is a \
              power of a half, 9 here (red_calc_qavg_no_idle_time())",
    },
    Replaced {
        file: "include/net/red.h",
        from: "\tif (qavg < p->qth_min)\n",
        to: "\tif (qavg >> PLACES < p->qth_min >> p->Wlog)\n",
        why: "the lower threshold is compared with whole bytes of it (red_cmp_thresh())",
    },
    Replaced {
        file: "include/net/red.h",
        from: "\telse if (qavg >= p->qth_max)\n",
        to: "\telse if (qavg >> PLACES >= p->qth_max >> p->Wlog)\n",
        why: "so is the upper threshold",
    },
    Replaced {
        file: "include/net/red.h",
        from: "\tint\t\tqcount;\t",
        to: "\tu64\t\tsum;\n\tint\t\tqcount;\t",
        why: "the probabilities since the last drop are added up; the kernel counts the packets \
              (struct red_vars)",
    },
    Replaced {
        file: "include/net/red.h",
        from: "\t\t\tif (++v->qcount) {\n\
               \t\t\t\tif (red_mark_probability(p, v, qavg)) {\n\
               \t\t\t\t\tv->qcount = 0;\n\
               \t\t\t\t\tv->qR = red_random(p);\n\
               \t\t\t\t\treturn RED_PROB_MARK;\n\
               \t\t\t\t}\n\
               \t\t\t} else\n\
               \t\t\t\tv->qR = red_random(p);\n",
        to: "\t\t\tu64 own = probability(qavg, p->qth_min >> p->Wlog,\n\
             \t\t\t\t\t      p->qth_max >> p->Wlog, p->max_P);\n\n\
             \t\t\tif (!own)\n\
             \t\t\t\treturn RED_DONT_MARK;\n\
             \t\t\tif (v->qcount < 0) {\n\
             \t\t\t\tv->qcount = 0;\n\
             \t\t\t\tv->sum = 0;\n\
             \t\t\t\tv->qR = get_random_u32();\n\
             \t\t\t\treturn RED_DONT_MARK;\n\
             \t\t\t}\n\
             \t\t\tv->sum += own;\n\
             \t\t\tif (v->sum >= v->qR) {\n\
             \t\t\t\tv->sum = 0;\n\
             \t\t\t\tv->qR = get_random_u32();\n\
             \t\t\t\treturn RED_PROB_MARK;\n\
             \t\t\t}\n",
        why: "a packet is dropped where that sum reaches the random number; the kernel multiplies \
              the number of packets by the present probability (red_action(), \
              red_mark_probability())",
    },
    Replaced {
        file: "include/net/red.h",
        from: "\t\t\tv->qcount = -1;\n\t\t\treturn RED_HARD_MARK;\n",
        to: "\t\t\tv->qcount = 0;\n\t\t\tv->sum = 0;\n\t\t\tv->qR = get_random_u32();\n\
             \t\t\treturn RED_HARD_MARK;\n",
        why: "a drop above the upper threshold begins the sum anew, as any other; after one the \
              kernel lets the first packet below pass (red_action())",
    },
];

/// Why replacing a few lines does not make DualPI2 equal.
const DUALPI2: &str = "the kernel draws a word twice where the kit compares one with the square of \
    the probability (sch_dualpi2.c, dualpi2_classic_marking()), and gives turns by a credit that it \
    keeps while a queue is empty (dequeue_packet()), the kit by bytes due";

/// How a case's differences are explained.
#[derive(Debug, Clone, Copy)]
pub enum Why {
    /// There are no differences.
    Equal,
    /// There are no differences after these replacements.
    Lines(&'static [Replaced]),
    /// Differences remain after these replacements, for a reason; the total number of drops is
    /// about the same.
    Method(&'static [Replaced], &'static str),
}

/// One discipline with its settings.
pub struct Case {
    /// A name that distinguishes the case from others of its discipline.
    pub name: &'static str,
    /// The kit's settings; the kernel gets the same.
    pub settings: Settings,
    /// The link behind the queue.
    pub link: Link,
    /// Why decisions differ, if they do.
    pub why: Why,
}

impl Case {
    /// Returns the discipline's name, which is the same on both sides.
    pub fn discipline(&self) -> &'static str {
        self.settings.discipline().name()
    }

    /// Returns each parameter as `name=number`.
    pub fn arguments(&self) -> Vec<String> {
        let rows = self.settings.rows();
        let own = rows
            .iter()
            .map(|(row, value)| format!("{}={value}", row.name));
        own.chain([
            format!("mtu={MTU}"),
            format!("rate_bytes_s={}", self.link.rate_bytes_s),
            format!("weight_log={WEIGHT_LOG}"),
        ])
        .collect()
    }

    /// Returns the interval of the timer's updates; 0 if there is no timer.
    pub fn update_ns(&self) -> u64 {
        let rows = self.settings.rows();
        let update = rows.iter().find(|(row, _)| row.name == "update_ns");
        update.map_or(0, |(_, value)| *value)
    }

    /// Returns the longest pause for which the kit makes up.
    pub fn longest_pause_ns(&self) -> u64 {
        match self.update_ns() {
            0 => u64::MAX,
            update => CATCH_UP * update,
        }
    }
}

/// Returns all cases.
pub fn cases() -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    let codel: [(&str, &[(&str, u64)]); 4] = [
        ("defaults", &[]),
        ("ECN", &[("ecn", 1)]),
        (
            "ECN and a threshold",
            &[("ecn", 1), ("ce_threshold_ns", 1_000_000)],
        ),
        (
            "short interval",
            &[("target_ns", 50_000), ("interval_ns", 100_000)],
        ),
    ];
    for (name, values) in codel {
        cases.push(case("codel", name, values, Why::Equal)?);
        let mut values = values.to_vec();
        if !values.iter().any(|(name, _)| *name == "ecn") {
            values.push(("ecn", 0));
        }
        cases.push(case("fq_codel", name, &values, Why::Equal)?);
    }
    cases.push(case(
        "fq_codel",
        "a threshold for L4S",
        &[("ce_threshold_ns", 1_000_000), ("ce_threshold_for", 1)],
        Why::Equal,
    )?);
    cases.push(case(
        "fq_codel",
        "small limit",
        &[("limit_packets", 100), ("quantum_bytes", 300)],
        Why::Equal,
    )?);
    for (name, values) in [
        ("defaults", &[][..]),
        ("ECN", &[("ecn", 1)]),
        ("by size", &[("by_size", 1)]),
    ] {
        let mut values = values.to_vec();
        values.push(("update_ns", UPDATE_NS));
        cases.push(case("pie", name, &values, Why::Lines(PIE))?);
    }
    for (name, overload) in [("defaults", 1), ("no drops for overload", 0)] {
        // As in the kernel: scheduling by weights, and no step in packets.
        let values = [
            ("scheduler", 1),
            ("step_packets", 0),
            ("bursts_ns", 0),
            ("drop_overload", overload),
            // Here a packet's flow is a hash, not a code point.
            ("nqb_code", 64),
        ];
        cases.push(case("dualpi2", name, &values, Why::Method(&[], DUALPI2))?);
    }
    for (name, ecn) in [("drops", 0), ("ECN", 1)] {
        let values = [
            ("limit_bytes", 400_000),
            ("min_bytes", 30_000),
            ("max_bytes", 90_000),
            ("weight", (1_u64 << 32) >> WEIGHT_LOG),
            ("max_p", (1 << 32) / 10),
            ("gentle", 0),
            ("ecn", ecn),
        ];
        cases.push(case("red", name, &values, Why::Lines(RED))?);
    }
    Ok(cases)
}

fn case(discipline: &str, name: &'static str, values: &[(&str, u64)], why: Why) -> Result<Case> {
    let name_of = discipline;
    let discipline = Discipline::named(discipline).context("no discipline of the kit")?;
    let mut settings = Settings::new(discipline);
    for (name, value) in values {
        settings.set(name, *value)?;
    }
    Ok(Case {
        name,
        settings,
        link: Link {
            // RED's average falls by the transmission time of a packet. The other disciplines must
            // see departures from an empty queue, as the kernel's do, so their rate is unknown.
            rate_bytes_s: if name_of == "red" { 1_250_000 } else { 0 },
            mtu_bytes: MTU,
            ..Link::default()
        },
        why,
    })
}
