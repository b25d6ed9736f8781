"""Libraries that make the loop themselves.

trainers.py   Lightning's and transformers' Trainers, which make what the loop needs, too
engines.py    Ignite's engines, which count epochs and batches themselves
"""
