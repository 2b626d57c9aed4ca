//! `linchpin ceiling`: the calculator on the command line. The arithmetic is the analyzer's.

use std::io::Write;

use linchpin_analyzer::calculator::{Calculation, Inputs};

use crate::cli::{CeilingArgs, Format};
use crate::{config, plain};

/// Calculates and prints.
pub fn run(args: &CeilingArgs) -> anyhow::Result<()> {
    let inputs = Inputs {
        restarts_per_hour: args.restarts_per_hour,
        recovery_seconds: args.recovery,
        hostnames: args.hostnames,
        replicas: args.replicas,
        target: config::share(args.target, "--target")?,
        window_days: args.window_days,
    };
    let c = Calculation::new(inputs)?;
    let mut out = std::io::stdout().lock();
    match args.format {
        Format::Json => {
            serde_json::to_writer_pretty(&mut out, &c)?;
            writeln!(out)?;
        }
        Format::Text => out.write_all(text(&c).as_bytes())?,
    }
    Ok(())
}

fn text(c: &Calculation) -> String {
    let i = &c.inputs;
    let lasts = c.budget_lasts_days.map_or("never ends".to_string(), |d| format!("is gone in {d:.1} days"));
    format!(
        "At best {ceiling}: {rate} restarts an hour, down {recovery} each.\n\
         \n\
         down an hour     {hour}\n\
         down a day       {day}\n\
         target           {target} over {days} days, {allowed} allowed\n\
         burn rate        {burn:.2} times the budget, which {lasts}\n\
         hostnames        {names}; together they lose {lost} in {days} days\n\
         replicas         {replicas} behind it change none of this: every request crosses the one process\n",
        ceiling = plain::percent(c.ceiling),
        rate = i.restarts_per_hour,
        recovery = plain::duration(i.recovery_seconds),
        hour = plain::duration(c.downtime_seconds_per_hour),
        day = plain::duration(c.downtime_seconds_per_day),
        target = plain::percent(i.target),
        days = i.window_days,
        allowed = plain::duration(c.budget_seconds_per_month),
        burn = c.burn_rate,
        names = i.hostnames,
        lost = plain::duration(c.hostname_seconds_per_month),
        replicas = i.replicas,
    )
}
