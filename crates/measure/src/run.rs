// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One recording, checked and sorted by flow.

use crate::activity::{self, Stretches, clipped};
use crate::error::MeasureError;
use crate::window::{SECOND, Window};
use weirgate_experiment::{Delivered, Direction, Experiment, FlowName, LinePacket, Recording};

/// A day: several times the longest run that an experiment may request. It bounds the tables by
/// second.
const LONGEST_NS: u64 = 86_400 * SECOND;

/// A recording with the tables that every metric needs.
pub(crate) struct Run<'a> {
    pub(crate) experiment: &'a Experiment,
    pub(crate) recording: &'a Recording,
    /// Packets at the line by flow, both directions, in order of arrival.
    pub(crate) packets: Vec<Vec<&'a LinePacket>>,
    /// Receipts by flow, in order of time.
    pub(crate) delivered: Vec<Vec<&'a Delivered>>,
    /// The subjects of flow metrics: groups and their members.
    pub(crate) subjects: Vec<Subject>,
}

/// A traffic entry as a whole, or one of its equal members.
pub(crate) struct Subject {
    /// The name in metrics: `up`, or `up#1` for a member of a group.
    pub(crate) name: String,
    /// Indices in [`Recording::flows`].
    pub(crate) members: Vec<usize>,
    /// When it is active.
    pub(crate) active: Stretches,
    /// The direction of its data.
    pub(crate) direction: Option<Direction>,
    /// Whether it is the whole entry.
    pub(crate) whole: bool,
}

impl<'a> Run<'a> {
    pub(crate) fn new(
        experiment: &'a Experiment,
        recording: &'a Recording,
    ) -> Result<Self, MeasureError> {
        check(experiment, recording)?;
        let mut packets = vec![Vec::new(); recording.flows.len()];
        for packet in &recording.line {
            if let Some(list) = packet
                .flow
                .and_then(|flow| packets.get_mut(usize::from(flow)))
            {
                list.push(packet);
            }
        }
        let mut delivered = vec![Vec::new(); recording.flows.len()];
        for record in &recording.delivered {
            if let Some(list) = delivered.get_mut(usize::from(record.flow)) {
                list.push(record);
            }
        }
        let subjects = subjects(experiment, recording, &delivered);
        Ok(Self {
            experiment,
            recording,
            packets,
            delivered,
            subjects,
        })
    }

    /// Returns the line packets of a subject's members; those of several members are not in order.
    pub(crate) fn packets_of(
        &self,
        members: &'a [usize],
    ) -> impl Iterator<Item = &'a LinePacket> + use<'a, '_> {
        members
            .iter()
            .filter_map(|&member| self.packets.get(member))
            .flatten()
            .copied()
    }

    /// Returns the receipts of a subject's members; those of several members are not in order.
    pub(crate) fn delivered_of(
        &self,
        members: &'a [usize],
    ) -> impl Iterator<Item = &'a Delivered> + use<'a, '_> {
        members
            .iter()
            .filter_map(|&member| self.delivered.get(member))
            .flatten()
            .copied()
    }
}

fn subjects(
    experiment: &Experiment,
    recording: &Recording,
    delivered: &[Vec<&Delivered>],
) -> Vec<Subject> {
    let arm = experiment.arm(&recording.arm);
    let left_out = |name: &String| arm.is_some_and(|arm| arm.without.contains(name));
    let mut subjects = Vec::new();
    for traffic in experiment
        .traffic
        .iter()
        .filter(|traffic| !left_out(&traffic.name))
    {
        let direction = activity::data_direction(traffic.from, traffic.to);
        let members: Vec<(usize, &FlowName)> = recording
            .flows
            .iter()
            .enumerate()
            .filter(|(_, flow)| flow.name == traffic.name)
            .collect();
        if members.is_empty() {
            continue;
        }
        let active_of = |&(index, flow): &(usize, &FlowName)| {
            activity::of_member(traffic, flow.instance, &delivered[index])
        };
        subjects.push(Subject {
            name: traffic.name.clone(),
            members: members.iter().map(|member| member.0).collect(),
            active: activity::union(members.iter().flat_map(active_of).collect()),
            direction,
            whole: true,
        });
        if traffic.count > 1 {
            subjects.extend(members.iter().map(|member| Subject {
                name: format!("{}#{}", traffic.name, u32::from(member.1.instance) + 1),
                members: vec![member.0],
                active: active_of(member),
                direction,
                whole: false,
            }));
        }
    }
    subjects
}

fn check(experiment: &Experiment, recording: &Recording) -> Result<(), MeasureError> {
    let arm = || recording.arm.clone();
    if recording.duration_ns > LONGEST_NS {
        return Err(MeasureError::Duration {
            arm: arm(),
            seconds: recording.duration_ns / SECOND,
        });
    }
    if experiment.arm(&recording.arm).is_none() {
        let known: Vec<&str> = experiment
            .arms
            .iter()
            .map(|arm| arm.name.as_str())
            .collect();
        return Err(MeasureError::UnknownArm {
            arm: arm(),
            experiment: experiment.name.clone(),
            known: known.join(", "),
        });
    }
    let known = |name: &str| {
        experiment
            .traffic
            .iter()
            .any(|traffic| traffic.name == name)
            || experiment.probes.iter().any(|probe| probe.name == name)
    };
    if let Some(flow) = recording.flows.iter().find(|flow| !known(&flow.name)) {
        return Err(MeasureError::UnknownFlow {
            arm: arm(),
            flow: flow.name.clone(),
            experiment: experiment.name.clone(),
        });
    }
    let flows = recording.flows.len();
    let inside =
        |record, list, known: usize, mut indices: Box<dyn Iterator<Item = u16> + '_>| match indices
            .find(|&index| usize::from(index) >= known)
        {
            Some(index) => Err(MeasureError::Index {
                arm: arm(),
                record,
                list,
                index,
                known,
            }),
            None => Ok(()),
        };
    inside(
        "line",
        "flow",
        flows,
        Box::new(recording.line.iter().filter_map(|r| r.flow)),
    )?;
    inside(
        "delivery",
        "flow",
        flows,
        Box::new(recording.delivered.iter().map(|r| r.flow)),
    )?;
    inside(
        "connection",
        "flow",
        flows,
        Box::new(recording.connections.iter().map(|r| r.flow)),
    )?;
    inside(
        "TCP",
        "flow",
        flows,
        Box::new(recording.tcp.iter().map(|r| r.flow)),
    )?;
    let probes = experiment.probes.len();
    inside(
        "probe",
        "probe",
        probes,
        Box::new(recording.probes.iter().map(|r| r.probe)),
    )?;
    let classes = recording.classes.len();
    inside(
        "sojourn",
        "class",
        classes,
        Box::new(recording.sojourns.iter().map(|r| r.class)),
    )?;
    let places = recording.places.len();
    inside(
        "queue",
        "place",
        places,
        Box::new(recording.queues.iter().map(|r| r.place)),
    )
}

/// Returns the packets of the line's log in one direction.
pub(crate) fn one_way(
    recording: &Recording,
    direction: Direction,
) -> impl Iterator<Item = &LinePacket> {
    recording
        .line
        .iter()
        .filter(move |packet| packet.direction == direction)
}

impl Subject {
    /// Returns when the subject is active in a window.
    pub(crate) fn active_in(&self, window: &Window) -> Stretches {
        clipped(&self.active, window.start_ns, window.end_ns)
    }
}
