// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How what keeps the order of connections that change their class reads.

/// What happens, after the device.
pub(crate) const IN_SHORT: &str = "connections that leave change their class in order";

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_state::{Device, DeviceName, HookPrograms, Order, Origin, Program, State};

    fn state(order: Option<Order>) -> State {
        let name = DeviceName::new("wan").unwrap();
        let device = Device {
            owned_ifb: false,
            offloads: None,
            root: None,
            origin: Origin::default(),
        };
        let hooks = |order| HookPrograms {
            order: Some(order),
            ..HookPrograms::default()
        };
        State {
            devices: [(name.clone(), device)].into(),
            hooks: order
                .into_iter()
                .map(|order| (name.clone(), hooks(order)))
                .collect(),
            ..State::default()
        }
    }

    #[test]
    fn both_programs_come_are_exchanged_and_go() {
        let commands = |before: &State, after: &State| {
            let plan = crate::plan(before, after).unwrap();
            let end = crate::run(&plan.steps, before).unwrap();
            assert_eq!(crate::verify(&end, after), []);
            let back = crate::inverse(&plan.steps, before).unwrap();
            assert_eq!(crate::run(&back, &end).unwrap().hooks, before.hooks);
            let all: Vec<String> = plan.steps.iter().map(|it| it.action.command()).collect();
            let words = |line: &str| line.split(" pref").next().unwrap_or_default().to_owned();
            all.iter()
                .flat_map(|text| text.lines())
                .map(words)
                .collect::<Vec<_>>()
        };
        let (none, own) = (state(None), state(Some(Order {})));
        let replace = [
            "tc filter replace dev wan ingress",
            "tc filter replace dev wan egress",
        ];
        assert_eq!(commands(&none, &own)[0], "tc qdisc add dev wan clsact");
        assert_eq!(commands(&none, &own)[1..], replace);
        assert_eq!(commands(&own, &own), Vec::<String>::new());
        let gone = [
            "tc filter del dev wan ingress",
            "tc filter del dev wan egress",
            "tc qdisc del dev wan clsact",
        ];
        assert_eq!(commands(&own, &none), gone);
        let mut old = own.clone();
        for hooks in old.hooks.values_mut() {
            hooks.stale.insert(Program::Order);
        }
        let plan = crate::plan(&old, &own).unwrap();
        let lines = plan.steps[0].action.command();
        assert_eq!((plan.steps.len(), lines.lines().count()), (1, 2));
        assert_eq!(crate::verify(&old, &own).len(), 1);
        assert_eq!(crate::verify(&own, &old), [], "the old ones cannot return");
        let text = plan.steps[0].action.to_string();
        assert_eq!(text, format!("wan: {IN_SHORT}"));
    }
}
