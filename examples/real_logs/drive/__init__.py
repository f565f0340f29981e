"""A drive through a city: which noise model a filter takes, learned from its innovations alone.

The log is the drive at Potsdamer Platz of the smartLoc data set, TU Chemnitz (CC BY-SA 4.0); it is
not part of this repository.

    python -m examples.real_logs.drive PATH/TO/FOLDER --plot drive.svg
"""
