"""Progress bars of trainings and studies, the same from the command line and from Python."""
