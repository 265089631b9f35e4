// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The section `[[arm]]`.

use super::command::{check_parameters, command};
use super::registry::{Field, Own, Table, Text, Texts, Within, Word, time};
use super::scope::Scope;
use super::{autorate, change, codes, field, kit};
use crate::{Arm, Autorate, Command, Emulator, Metric, Sweep};
use weirgate_document::{Reader, Value, nearest};
use weirgate_units::Span;

/// The largest number of values in a sweep; each one is a separate run.
const MOST_VALUES: usize = 32;

pub(super) const ARM: Field<Own> = Field::new("arm", Own("tables"), "The variants to compare")
    .required("add at least one variant: `[[arm]]` with `name = \"modem-only\"`");

const NAME: Field<Own> = Field::new(
    "name",
    Own("name"),
    "The arm's name in `--arm`, expectations and reports",
)
.required("give the arm a name");
const ABOUT: Field<Text> = Field::new("about", Text, "What the arm is, in one line");
const POLICY: Field<Text> = Field::new(
    "policy",
    Text,
    "The path of the weirgate policy applied on the gateway; relative to the file, at most one \
     folder up",
);
const COMMANDS: Field<Texts> = Field::new(
    "commands",
    Texts("`PLACE: PROGRAM ARGUMENT...`"),
    "Commands that run in order, without a shell, before the policy is applied and traffic \
     starts. Quotes keep spaces; names in braces without spaces are replaced (see `sweep`)",
);
const BACKGROUND: Field<Texts> = Field::new(
    "background",
    Texts("`PLACE: PROGRAM ARGUMENT...`"),
    "Commands that run beside the traffic. They begin after `commands` and the policy, must still \
     run when the traffic ends, and are then ended by SIGTERM. The recording has their output",
);
const PROGRAMS: Field<Texts> = Field::new(
    "programs",
    Texts("programs"),
    "Programs of this machine that `commands` and `background` need in the guest",
);
const MODULE_PARAMETERS: Field<Texts> = Field::new(
    "module-parameters",
    Texts("`MODULE.PARAMETER=VALUE`"),
    "Module parameters to set in the guest's kernel",
);
const KERNEL_OPTIONS: Field<Texts> = Field::new(
    "kernel-options",
    Texts("options"),
    "Options to add to the guest's kernel command line",
);
const EMULATOR: Field<Word<Emulator>> = Field::new(
    "emulator",
    Word(&[
        ("own", Emulator::Own),
        ("user-space", Emulator::UserSpace),
        ("netem", Emulator::Netem),
    ]),
    "What emulates the line: the lab's own program in the kernel, the lab's own code in user \
     space ([why there are two](../decisions/0031-line-in-the-kernel.md)), or the kernel's netem \
     where it can express the line. Netem logs no packets",
)
.default("`\"own\"`");
const WITHOUT: Field<Texts> = Field::new(
    "without",
    Texts("traffic and probes"),
    "Traffic and probes that this arm leaves out",
);
const ORACLE: Field<Within<Span>> = Field::new(
    "oracle",
    time(Span::ZERO, Span::from_secs(10)),
    "The policy's rates follow the line's rates after this delay, as an ideal controller would \
     set them. The policy has no `[track]`",
);
const SWEEP: Field<Own> = Field::new(
    "sweep",
    Own("table"),
    "Runs the arm once for each value and reports the best",
);

pub(super) const TABLE: Table = Table::new(
    "[[arm]]",
    "A variant of the experiment. Each runs in a virtual machine of its own, with the same \
     traffic and seed",
    &[
        &NAME,
        &ABOUT,
        &POLICY,
        &kit::KIT,
        &autorate::AUTORATE,
        &COMMANDS,
        &BACKGROUND,
        &PROGRAMS,
        &MODULE_PARAMETERS,
        &KERNEL_OPTIONS,
        &EMULATOR,
        &WITHOUT,
        &change::THEN,
        &ORACLE,
        &SWEEP,
    ],
);

const PARAMETER: Field<Text> = Field::new(
    "parameter",
    Text,
    "The parameter's name. `commands` use it as `{name}`; `{name.2}` is the second word of a value",
)
.required("name what varies: `parameter = \"rate\"`");
const VALUES: Field<Texts> = Field::new("values", Texts("1 to 32 texts"), "The values to try")
    .required("list what is tried: `values = [\"440kbit\"]`");
const BEST: Field<Text> = Field::new("best", Text, "The metric whose lowest value is best")
    .required("name the metric whose lowest value is best");

pub(super) const SWEEP_TABLE: Table = Table::new(
    "[arm.sweep]",
    "The values that an arm tries for one parameter",
    &[&PARAMETER, &VALUES, &BEST],
);

pub(super) fn arms(root: &mut Reader<'_, '_>, scope: &mut Scope) -> Vec<Arm> {
    ARM.is_there(root);
    let tables = root.tables(ARM.name);
    tables
        .into_iter()
        .filter_map(|mut table| arm(&mut table, scope))
        .collect()
}

fn arm(table: &mut Reader<'_, '_>, scope: &mut Scope) -> Option<Arm> {
    let name = field::name(table, &NAME, "arm", &mut scope.arms);
    let about = ABOUT.get(table);
    let policy = POLICY.get(table).and_then(|path| file(table, path));
    let kit = kit::kit(table);
    if let (Some(_), true) = (&policy, kit::KIT.is_in(table)) {
        let message = "an arm has a policy or a discipline of the kit, not both";
        let problems = table.problems();
        problems.error(codes::ARM, field::head(table), message, "leave one out");
    }
    let emulator = EMULATOR.get(table);
    if let (Some(name), Some(Emulator::Netem)) = (&name, emulator) {
        scope.netem.insert(name.value.clone());
    }
    let sweep = table.table(SWEEP.name).and_then(|mut t| {
        let arm = name.as_ref().map(|name| name.value.as_str());
        read_sweep(&mut t, scope, arm)
    });
    let (commands, background) = commands(table, scope, sweep.as_ref());
    let programs = programs(table);
    let module_parameters = module_parameters(table);
    let kernel_options = kernel_options(table);
    let without = without(table, scope);
    let (then, changes) = change::changes(table, scope);
    let oracle = ORACLE.is_in(table).then(|| ORACLE.get(table));
    if oracle.is_some() && (policy.is_none() || !then.is_empty()) {
        let message = "`oracle` needs a policy, and leaves no room for `then`";
        let hint = "give the arm a `policy` whose rates follow, and leave `then` out";
        let problems = table.problems();
        problems.error(codes::ARM, field::head(table), message, hint);
    }
    let loops = autorate::autorate(table, scope);
    if loops.is_some() && (policy.is_some() || !then.is_empty()) {
        let message = "an arm has a policy or a loop that changes rates, not both";
        let hint = "leave `autorate` out; a policy follows the line by `[track]`";
        let problems = table.problems();
        problems.error(codes::ARM, field::head(table), message, hint);
    }
    let name = name?;
    scope.changes.insert(name.value.clone(), changes);
    let later = loops.iter().flat_map(Autorate::commands);
    for command in commands.iter().chain(&background).chain(later) {
        let program = command.argv.first().map_or("", String::as_str);
        if !programs.iter().any(|known| known == program) && !program.contains('{') {
            let message = format!("`{program}` is not packed for the arm `{}`", name.value);
            let hint = format!("add it: `programs = [\"{program}\"]`");
            let place = name.span.clone();
            table.problems().error(codes::COMMAND, place, message, hint);
            break;
        }
    }
    Some(Arm {
        name: name.value,
        about: about.map(|text| text.value).unwrap_or_default(),
        policy,
        kit,
        autorate: loops,
        commands,
        background,
        programs,
        module_parameters,
        kernel_options,
        emulator: emulator?,
        without,
        sweep,
        then,
        oracle: oracle.flatten(),
    })
}

/// Checks that a path is relative and stays in the experiments' folder, or in the folder above
/// it: `../policies/home.toml`.
pub(super) fn file(table: &Reader<'_, '_>, path: Value<String>) -> Option<String> {
    let text = &path.value;
    let inner = text.strip_prefix("../").unwrap_or(text);
    let plain = !inner.is_empty()
        && inner
            .split('/')
            .all(|part| !matches!(part, "" | "." | ".."))
        && !text.contains(|c: char| c.is_control() || c == '\\');
    if plain {
        return Some(path.value);
    }
    let message = format!("`{text}` is not a path beside the experiment file");
    let hint = "write a relative path, such as `policies/adsl.toml`";
    table
        .problems()
        .error(codes::PATH, path.span, message, hint);
    None
}

/// Reads the commands that run before the traffic, and those that run beside it.
fn commands(
    table: &mut Reader<'_, '_>,
    scope: &Scope,
    sweep: Option<&Sweep>,
) -> (Vec<Command>, Vec<Command>) {
    let mut used = false;
    let [before, beside] = [&COMMANDS, &BACKGROUND].map(|field| {
        let lines = field.get(table).unwrap_or_default();
        let mut commands = Vec::new();
        for line in &lines {
            if let Some(command) = command(table, scope, line) {
                used |= check_parameters(table, line, &command, sweep);
                commands.push(command);
            }
        }
        commands
    });
    if let Some(sweep) = sweep.filter(|_| !used) {
        let message = format!("no command uses the sweep's `{{{}}}`", sweep.parameter);
        let hint = format!("write `{{{}}}` where its values belong", sweep.parameter);
        table
            .problems()
            .error(codes::SWEEP, field::head(table), message, hint);
    }
    (before, beside)
}

fn read_sweep(table: &mut Reader<'_, '_>, scope: &Scope, arm: Option<&str>) -> Option<Sweep> {
    let parameter = PARAMETER.get(table);
    let parameter = parameter.filter(|name| field::well_formed(table, "parameter", name));
    let values = VALUES.get(table);
    if let Some(values) = &values
        && (values.is_empty() || values.len() > MOST_VALUES)
    {
        let message = format!("a sweep tries 1 to {MOST_VALUES} values");
        table
            .problems()
            .error(codes::SWEEP, field::head(table), message, "change `values`");
        return None;
    }
    let best = BEST.get(table);
    let best = best.and_then(|best| {
        let metric = super::expect::metric(table, scope, &best)?;
        let arms = arm.as_slice();
        super::expect::measured(table, scope, &best, arms, [&metric]).then_some(metric)
    });
    Some(Sweep {
        parameter: parameter?.value,
        values: values?.into_iter().map(|value| value.value).collect(),
        best: best.as_ref().map(Metric::to_string)?,
    })
}

fn programs(table: &mut Reader<'_, '_>) -> Vec<String> {
    let mut programs = Vec::new();
    for program in PROGRAMS.get(table).unwrap_or_default() {
        let plain = program
            .value
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'+'));
        if plain && !program.value.is_empty() && !program.value.starts_with(['-', '.']) {
            programs.push(program.value);
            continue;
        }
        let message = format!("`{}` is not a program's name", program.value);
        let hint = "write the name only, such as `tc`; it is looked up in the usual places";
        table
            .problems()
            .error(codes::COMMAND, program.span, message, hint);
    }
    programs
}

fn module_parameters(table: &mut Reader<'_, '_>) -> Vec<(String, String)> {
    let mut list = Vec::new();
    for text in MODULE_PARAMETERS.get(table).unwrap_or_default() {
        let word = |part: &str| {
            !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        };
        let parsed = text.value.split_once('=').filter(|(name, value)| {
            let named = name
                .split_once('.')
                .is_some_and(|(module, parameter)| word(module) && word(parameter));
            named && !value.is_empty() && !value.contains(char::is_whitespace)
        });
        if let Some((name, value)) = parsed {
            list.push((name.to_owned(), value.to_owned()));
            continue;
        }
        let message = format!("`{}` is not a module parameter", text.value);
        let hint = "write module, parameter and value: `sch_htb.htb_hysteresis=1`";
        table
            .problems()
            .error(codes::SETTING, text.span, message, hint);
    }
    list
}

/// Options of the kernel command line that the lab sets itself.
const OWN_OPTIONS: [&str; 6] = ["console", "panic", "init", "rdinit", "root", "nokaslr"];

fn kernel_options(table: &mut Reader<'_, '_>) -> Vec<String> {
    let mut list = Vec::new();
    for option in KERNEL_OPTIONS.get(table).unwrap_or_default() {
        let word = option.value.split('=').next().unwrap_or_default();
        let message = if option.value.is_empty()
            || !option
                .value
                .bytes()
                .all(|b| b.is_ascii_graphic() && b != b'"')
        {
            format!("`{}` is not one kernel option", option.value)
        } else if OWN_OPTIONS.contains(&word) {
            format!("the lab itself sets the kernel option `{word}`")
        } else {
            list.push(option.value);
            continue;
        };
        let hint = "write one option without spaces, such as `highres=off`";
        table
            .problems()
            .error(codes::SETTING, option.span, message, hint);
    }
    list
}

fn without(table: &mut Reader<'_, '_>, scope: &Scope) -> Vec<String> {
    let mut list = Vec::new();
    for name in WITHOUT.get(table).unwrap_or_default() {
        if scope.names.contains(&name.value) {
            list.push(name.value);
            continue;
        }
        let message = format!("there is no traffic or probe `{}`", name.value);
        let names = scope.names.iter().map(String::as_str);
        let hint = match nearest(&name.value, names) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "name a `[[traffic]]` or `[[probe]]` of this file".to_owned(),
        };
        table
            .problems()
            .error(codes::SUBJECT, name.span, message, hint);
    }
    list
}
