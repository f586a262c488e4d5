"""Reports about a model: one HTML page that works offline, on a phone and on paper.

`content.describe` measures a model on judged data, beside a champion, and studies its training
data. `sections.page_of` turns this content into the sections of a page; `model_sections` has the
sections about the model itself, and `figures` draws. `page.render` renders the page as HTML,
without scripts, other files or anything from the network.
"""
