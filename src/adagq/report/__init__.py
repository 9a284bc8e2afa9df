"""Tables, figures and the page of a run: reads rows only, runs nothing.

    rows.jsonl ──► summarize ──► summary.json ──► summary_table   (terminal)
        │                            └──────────► write_report    report.html, figures/*.svg, *.png
    ledger.jsonl ────────────────────────────────────┘
                                                  write_tensorboard   event files

The only place for matplotlib, which is imported when a figure is drawn and not before.
"""

from adagq.report.plan import plan_heatmap
from adagq.report.summary import summarize
from adagq.report.table import summary_table
from adagq.report.tensorboard import write_tensorboard
from adagq.report.write import write_report, write_summary

__all__ = ["plan_heatmap", "summarize", "summary_table", "write_report", "write_summary", "write_tensorboard"]
