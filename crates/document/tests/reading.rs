// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests what a reader accepts, refuses and shows, through the crate's interface.

use proptest::prelude::*;
use weirgate_document::{Kind, Problem, Problems, Reader, Severity, parse};

fn read<T>(source: &str, read: impl FnOnce(Reader<'_, '_>) -> T) -> (T, Vec<Problem>) {
    let problems = Problems::default();
    let value = parse(source, &problems, read);
    (value, problems.into_sorted())
}

fn shown(source: &str, with: impl FnOnce(Reader<'_, '_>)) -> String {
    let ((), problems) = read(source, with);
    let texts: Vec<String> = problems
        .iter()
        .map(|problem| problem.render("site.toml", source))
        .collect();
    texts.join("\n\n")
}

#[test]
fn values_keep_their_place() {
    let source = "a = 1\n  b = \"größe\" # Ä\nc = [ \"x\", 2 ]\n";
    let ((), problems) = read(source, |mut root| {
        let a = root.integer("a", 0..=9).expect("an integer");
        assert_eq!((*a, a.line, a.span), (1, 1, 4..5));
        let b = root.text("b").expect("a text");
        assert_eq!((b.value.as_str(), b.line), ("größe", 2));
        let c = root.text_list("c").expect("a list");
        assert_eq!(
            c.iter().map(|v| v.value.as_str()).collect::<Vec<_>>(),
            ["x", "2"]
        );
        assert_eq!(root.kind("c"), Some(Kind::List));
        assert_eq!(root.kind("d"), None);
    });
    assert_eq!(problems, []);
}

#[test]
fn every_problem_is_reported_in_order_of_place() {
    let source = "rate = true\nrtae = 5\n[link]\nup = 99\nspeed = \"x\"\n[[class]]\n";
    let text = shown(source, |mut root| {
        root.text("rate");
        let mut link = root.table("link").expect("a table");
        link.integer("up", 0..=9);
        link.text("device")
            .or_else(|| link.missing("device", "name the device"));
        drop(link);
        for mut class in root.tables("class") {
            class.text("name").or_else(|| class.missing("name", ""));
        }
    });
    let titles: Vec<&str> = text.lines().filter(|l| l.starts_with("error")).collect();
    assert_eq!(
        titles,
        [
            "error[D004]: `rate` is of type boolean",
            "error[D003]: `rtae` is not known",
            "error[D002]: `device` is missing in `link`",
            "error[D005]: `up` is out of range",
            "error[D003]: `speed` is not known in `link`",
            "error[D002]: `name` is missing in `class`",
        ]
    );
    assert!(text.contains("write `rate = 5`"), "{text}");
}

/// A quantity: whole numbers of `baud`.
#[derive(Debug, PartialEq)]
struct Speed(u32);

impl std::str::FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_suffix("baud").and_then(|it| it.parse().ok());
        let wrong = || format!("`{text}` is no speed; write a number with baud");
        number.map(Self).ok_or_else(wrong)
    }
}

#[test]
fn a_number_without_quotes_is_told_what_it_lacks() {
    let text = shown("up = 10000\nport = 22\n", |mut root| {
        assert_eq!(root.parsed::<Speed>("up"), None);
        assert_eq!(root.parsed::<u16>("port"), None);
    });
    assert!(
        text.contains("write a number with baud, in quotes"),
        "{text}"
    );
    assert!(text.contains("write `port = \"22\"`"), "{text}");
}

#[test]
fn a_problem_is_underlined_with_its_hint() {
    let text = shown("version = 1\nup = \"512 kbaud\"\n", |mut root| {
        root.has("version");
        let rate: Option<weirgate_document::Value<std::net::Ipv4Addr>> = root.parsed("up");
        assert_eq!(rate, None);
    });
    assert_eq!(
        text,
        "error[D004]: `up`: invalid IPv4 address syntax\n \
         --> site.toml:2:6\n  |\n2 | up = \"512 kbaud\"\n  |      ^^^^^^^^^^^"
    );
}

#[test]
fn what_follows_a_semicolon_is_the_hint() {
    #[derive(Debug)]
    struct Never;
    impl std::str::FromStr for Never {
        type Err = String;
        fn from_str(text: &str) -> Result<Self, String> {
            Err(format!("`{text}` is wrong; write less; or more"))
        }
    }
    let ((), problems) = read("up = \"x\"", |mut root| {
        assert!(root.parsed::<Never>("up").is_none());
    });
    assert_eq!(problems[0].message, "`up`: `x` is wrong");
    assert_eq!(problems[0].hint, "write less; or more");
}

#[test]
fn what_is_missing_in_the_whole_document_points_at_what_is_written_first() {
    let text = shown("\n# only a comment\n", |root| {
        root.missing::<()>("version", "write `version = 1`");
    });
    assert!(
        text.starts_with("error[D002]: `version` is missing\n"),
        "{text}"
    );
    assert!(text.contains("--> site.toml:2:1"), "{text}");
    let empty = shown("", |root| {
        root.missing::<()>("version", "write `version = 1`");
    });
    assert!(empty.contains("write `version = 1`"), "{empty}");
}

#[test]
fn syntax_errors_do_not_hide_the_rest() {
    let ((), problems) = read(
        "up = \nname = \"x\"\nname = \"y\"\n[link\ndevice = 1\n",
        |mut root| {
            root.has("up");
            assert_eq!(root.text("name").expect("the first").value, "x");
            root.table("link");
        },
    );
    let syntax = problems.iter().filter(|problem| problem.code == "D001");
    assert_eq!(syntax.count(), 3, "{problems:#?}");
}

#[test]
fn numbers_of_any_notation() {
    let ((), problems) = read(
        "h = 0x1F\nu = 1_000\nf = 1.5\nn = nan\nx = 0x10\n",
        |mut root| {
            assert_eq!(*root.integer("h", 0..=99).expect("hexadecimal"), 31);
            assert_eq!(
                *root.integer("u", 0..=1000).expect("with a separator"),
                1000
            );
            assert_eq!(*root.number("f").expect("a fraction"), 1.5);
            assert_eq!(root.number("n"), None);
            assert_eq!(root.number("x"), None, "a rate in hexadecimal is a mistake");
        },
    );
    assert_eq!(problems.len(), 2, "{problems:#?}");
}

#[test]
fn user_chosen_names_are_never_unknown() {
    let ((), problems) = read("[arm.a]\nx = 1\n[arm.b]\ny = 2\n", |mut root| {
        let mut arms = root.table("arm").expect("a table");
        for key in arms.keys() {
            let mut arm = arms.table_named(&key).expect("a table");
            arm.has("x");
        }
    });
    let found: Vec<&str> = problems.iter().map(|p| p.message.as_str()).collect();
    assert_eq!(found, ["`y` is not known in `b`"]);
}

#[test]
fn a_field_is_found_by_a_former_name() {
    let source = "[a]\nold = 5\n[b]\nodl = 5\n[c]\nnew = 1\nold = 2\nolder = 3\n";
    let ((), problems) = read(source, |mut root| {
        let mut table = |name| {
            let mut table = root.table(name).expect("a table");
            table.formerly("new", &["old", "older"]);
            table
        };
        let mut a = table("a");
        assert!(a.has("new") && !a.has_unknown());
        assert_eq!(a.kind("new"), Some(Kind::Number));
        assert_eq!(a.span_of("new"), 4..7);
        assert_eq!(a.integer("new", 0..=9).map(|five| five.value), Some(5));
        assert_eq!(a.integer("new", 0..=3), None);
        let mut b = table("b");
        assert!(!b.has("new") && b.has_unknown() && b.meant("new"));
        let mut c = table("c");
        assert_eq!(c.integer("new", 0..=9).map(|one| one.value), Some(1));
    });
    let found: Vec<[&str; 3]> = problems
        .iter()
        .map(|one| [one.code, &one.message, &one.hint])
        .collect();
    assert_eq!(
        found,
        [
            [
                "D007",
                "`old` is now called `new`",
                "write `new = 5`; the old name works as before"
            ],
            [
                "D005",
                "`new` is out of range",
                "write a whole number from 0 to 3"
            ],
            ["D003", "`odl` is not known in `b`", "write `new = 5`"],
            [
                "D008",
                "`old` on line 7 and `new` on line 6 are one field",
                "write `new` alone: `old` is a former name of it"
            ],
            [
                "D008",
                "`older` on line 8 and `new` on line 6 are one field",
                "write `new` alone: `older` is a former name of it"
            ],
        ]
    );
    assert_eq!(problems[0].severity, Severity::Note);
    assert!(
        problems[0]
            .render("site.toml", source)
            .starts_with("note[D007]: ")
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// No text and no wrong span makes reading or rendering panic.
    #[test]
    fn anything_can_be_read_and_shown(
        source in "[a-z0-9\\[\\]=\"'.,#{}\\\\ \t\r\nä€\u{0}\u{2028}]{0,60}",
        start in 0_usize..70,
        length in 0_usize..70,
    ) {
        let problems = Problems::default();
        parse(&source, &problems, |mut root| {
            root.text("a");
            root.number("b");
            for mut table in root.tables("c") {
                table.text_list("d");
            }
        });
        problems.error("T000", start..start + length, "message", "hint");
        for problem in problems.into_sorted() {
            let (line, column) = problem.line_column(&source);
            prop_assert!(line >= 1 && column >= 1);
            prop_assert!(problem.render("f", &source).contains(problem.code));
        }
    }
}

#[test]
fn a_document_does_not_steer_the_terminal() {
    let ((), problems) = read("up = \"\\u001b[31m\\u202e\"\n", |mut root| {
        let up = root.text("up").expect("a text");
        root.problems()
            .error("X001", up.span.clone(), format!("`{}`", up.value), "\r\n");
    });
    assert_eq!(problems[0].message, "`\\u{1b}[31m\\u{202e}`");
    assert_eq!(problems[0].hint, "\\r\\n");
}

#[test]
fn names_from_elsewhere_are_answered_with_the_corrected_line() {
    use weirgate_document::{Problems, Synonym, Vocabulary};
    static WORDS: Vocabulary = Vocabulary {
        synonyms: &[
            Synonym {
                name: "src-ip",
                fields: &["local", "remote"],
                why: "by the side",
                table: "",
                hint: "",
            },
            Synonym {
                name: "ceil",
                fields: &["ceiling", "elsewhere"],
                why: "",
                table: "",
                hint: "",
            },
            Synonym {
                name: "sum",
                fields: &[],
                why: "",
                table: "",
                hint: "write `a = { both = {} }`, not `{name}`",
            },
        ],
        manual: "site(5)",
    };
    let fields = ["local", "remote", "ceiling", "a", "b", "c", "d", "e", "f"];
    let hint = |source: &str| {
        let problems = Problems::default();
        weirgate_document::parse_with_vocabulary(source, &problems, &WORDS, |mut root| {
            for field in fields {
                root.has(field);
            }
        });
        problems.into_sorted().remove(0).hint
    };
    assert_eq!(hint("ceil = \"8%\""), "write `ceiling = \"8%\"`");
    assert_eq!(
        hint("src_ip = 7"),
        "write `local = 7` or `remote = 7`: by the side"
    );
    assert_eq!(hint("[[locals]]\nx = 1"), "write `[[local]]`");
    assert_eq!(hint("colour = 1"), "site(5) lists the 9 tables of a policy");
}
