"""The program as people and scripts meet it: started for real, with and without a terminal."""
