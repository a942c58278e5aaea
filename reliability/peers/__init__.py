"""The comparison: lite forms of five families, on Tuckbox and on what people use today.

Every system is asked through the same four verbs and judged by the same oracle: values that say
whose they are, and a board in shared memory that says what each key may hold.
"""
