"""The pages that people see: records of what they show, templates, style and a little script.

A page is a frozen record of `views`, and `render.page` turns it into HTML. Everything works
without script; `links` has the addresses.
"""
