"""`python -m gdcb`: the command line, where its script is not on the path."""

from gdcb.cli import app

if __name__ == "__main__":
    app(prog_name="gdcb")
