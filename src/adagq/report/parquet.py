"""rows.parquet and ledger.parquet: a run as columns, a tenth of the size, for pandas, DuckDB or Spark.

The files of a run stay JSON lines, since only those can grow a round at a time and survive a kill; these are made from
them, in pieces, so that a ledger of millions of lines fits into memory.
"""

from itertools import islice
from pathlib import Path
from typing import Any, Final

from adagq.core.atomic import replacing
from adagq.core.extras import need
from adagq.core.jsonl import read_lines

NAMES: Final = ("rows", "ledger")
PIECE: Final = 100_000  # lines


def require_parquet() -> tuple[Any, Any]:
    """Return pyarrow and its Parquet part; a ConfigError says what to install."""
    return need("pyarrow", "parquet"), need("pyarrow.parquet", "parquet")


def write_parquet(run_dir: Path) -> list[Path]:
    """Write the files beside those that they are made from; return them."""
    arrow, parquet = require_parquet()
    written = []
    for name in NAMES:
        path, schema, writer = run_dir / f"{name}.parquet", None, None
        with replacing(path) as file:
            source = read_lines(run_dir / f"{name}.jsonl")
            while lines := list(islice(source, PIECE)):
                table = arrow.Table.from_pylist(lines, schema=schema)
                schema = schema or _with_nulls(arrow, table.schema)
                writer = writer or parquet.ParquetWriter(file, schema, compression="zstd")
                writer.write_table(table.cast(schema))
            if writer is not None:
                writer.close()
        if writer is None:
            path.unlink()
        else:
            written.append(path)
    return written


def _with_nulls(arrow: Any, schema: Any) -> Any:
    """Return the schema with columns that were all null in the first piece as numbers."""
    fields = [arrow.field(f.name, arrow.float64()) if arrow.types.is_null(f.type) else f for f in schema]
    return arrow.schema(fields)
