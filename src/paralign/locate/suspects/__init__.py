"""Right inputs and a wrong result, and the experiment that shows what is at fault.

In: a judgement and a laboratory. Out: faults, each confirmed by activation patching or only suspected.
"""
