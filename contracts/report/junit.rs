//! The report as JUnit's XML, which CI servers show: a suite for each kind, a test case for each check.
//!
//! Text that XML 1.0 cannot carry is left out, not escaped into something that it cannot carry either.

use std::fmt::Write as _;

use super::Report;
use crate::check::{CheckResult, Kind, Verdict};

pub(super) fn write(report: &Report) -> String {
    let target = format!("{}/{}", report.target.provider, report.target.model);
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let all = |verdict| report.checks.iter().filter(|c| c.verdict == verdict).count();
    let missing = missing(report);
    let _ = writeln!(
        out,
        "<testsuites name=\"{}\" tests=\"{}\" failures=\"{}\" time=\"{:.3}\">",
        escaped(&format!("{} against {target}", report.suite)),
        report.checks.len() + usize::from(missing.is_some()),
        all(Verdict::Failed) + usize::from(missing.is_some()),
        report.duration.as_secs_f64()
    );
    for kind in Kind::ALL {
        let checks: Vec<&CheckResult> = report.checks.iter().filter(|c| c.kind == kind).collect();
        let count = |verdict| checks.iter().filter(|c| c.verdict == verdict).count();
        let _ = writeln!(
            out,
            "  <testsuite name=\"{kind}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">",
            checks.len(),
            count(Verdict::Failed),
            count(Verdict::Skipped)
        );
        for check in checks {
            case(&mut out, report, check);
        }
        out.push_str("  </testsuite>\n");
    }
    if let Some(why) = missing {
        let why = escaped(&why);
        let _ = writeln!(
            out,
            "  <testsuite name=\"whole\" tests=\"1\" failures=\"1\" skipped=\"0\">\n    \
             <testcase classname=\"{}\" name=\"passed\">\n      <failure message=\"{why}\">{why}</failure>\n    \
             </testcase>\n  </testsuite>",
            escaped(&report.suite)
        );
    }
    out.push_str("</testsuites>\n");
    out
}

/// Why a run has not passed although no check failed: a CI server must not show it green.
fn missing(report: &Report) -> Option<String> {
    let failed = report.checks.iter().any(|c| c.verdict == Verdict::Failed);
    (!failed && !report.passed()).then(|| report.shortcomings().join("; "))
}

fn case(out: &mut String, report: &Report, check: &CheckResult) {
    let _ = write!(
        out,
        "    <testcase classname=\"{}\" name=\"{}\"",
        escaped(&format!("{}.{}", report.suite, check.kind)),
        escaped(&format!("{} [{}]", check.name, check.case))
    );
    let detail = escaped(&check.detail);
    let _ = match check.verdict {
        Verdict::Passed => writeln!(out, "/>"),
        Verdict::Failed => writeln!(out, ">\n      <failure message=\"{detail}\">{detail}</failure>\n    </testcase>"),
        Verdict::Skipped => writeln!(out, ">\n      <skipped message=\"{detail}\"/>\n    </testcase>"),
    };
}

/// For an attribute in double quotes, or text.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' | '\r' => {
                let _ = write!(out, "&#{};", u32::from(c));
            }
            c if c < ' ' || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            c => out.push(c),
        }
    }
    out
}
