"""How an assembly shows itself: the one place where this room meets ``rightlab.html``."""

from typing import TYPE_CHECKING

from rightlab.html import (
    Block,
    Bullets,
    Code,
    Column,
    Details,
    Footer,
    Page,
    Table,
    count,
    percent,
    size,
    tokens,
)

if TYPE_CHECKING:
    from rightlab.prompt.assembly import Assembly

__all__ = ["assembly_page"]


def assembly_page(assembly: "Assembly") -> Page:
    """The sections with owner and size, the problems, and the prompt itself folded away."""
    from rightlab.errors import PromptError

    title = f"Prompt assembly · {assembly.mode} mode" if assembly.mode else "Prompt assembly"
    try:
        parts = assembly.parts()
    except PromptError as error:
        return Page(title, error=error)
    total = len(assembly.render_bytes())
    estimate = sum(part.tokens for part in parts)
    rows = [
        {
            "n": index,
            "name": part.name,
            "owner": part.owner,
            "bytes": len(part.data),
            "tokens": part.tokens,
            "stability": part.stability,
            "sha256": part.sha256[:12],
        }
        for index, part in enumerate(parts, 1)
    ]
    columns = [
        Column("n", "#"),
        Column("name", "section"),
        Column("owner"),
        Column("bytes", "size", format=size),
        Column("tokens", "tokens, about", format=tokens),
        *(
            [Column("stability", "stable", format=percent)]
            if any(part.stability is not None for part in parts)
            else []
        ),
        Column("sha256", "hash"),
    ]
    body: list[Block] = [
        Table(rows, columns, caption="Sections in the order the model reads them", row_headers=False)
    ]
    if assembly.problems:
        body.append(Bullets([f"{one.code}: {one.message}" for one in assembly.problems]))
    if assembly.tools:
        body.append(
            Details(f"{count(len(assembly.tools))} tools", Bullets([tool.name for tool in assembly.tools]))
        )
    body.append(Details("The whole prompt", Code(assembly.render())))
    problems = len(assembly.problems)
    sentence = (
        f"The model is told {size(total)}, about {tokens(estimate)} tokens, in {count(len(parts))} sections; "
        f"{'no problems' if not problems else f'{problems} problem' + ('s' if problems > 1 else '')}."
    )
    return Page(
        title, sentence, *body, footer=Footer(n=len(parts), method=f"tokens: {assembly.token_method}")
    )
