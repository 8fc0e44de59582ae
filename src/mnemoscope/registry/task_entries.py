"""The tasks by name. The columns are described in `table.py`."""

from mnemoscope.registry.entry import Registry
from mnemoscope.registry.table import read_entries

RELATIONAL = "relational"
"""Tag of tasks that show all objects of a problem together; one of `networks` learns them."""

TASKS = """
flipflop | n bits, each held at the sign of its last pulse
    Sussillo & Barak 2013; Jang, section 6 | mnemoscope.tasks:FlipFlop | sussillo2013 jang | discrete memory
copy | recall 10 symbols after a delay
    Hochreiter & Schmidhuber 1997; Arjovsky et al. 2016 | mnemoscope.tasks:Copy | hochreiter1997 arjovsky2016
    delayed recall
adding | add the two marked numbers of a long sequence
    Hochreiter & Schmidhuber 1997 | mnemoscope.tasks:Adding | hochreiter1997 | delayed recall
transfer-copy | recall 10 symbols after a delay that differs from the one in training
    Hochreiter & Schmidhuber 1997; Kerg et al. 2020 | mnemoscope.tasks:TransferCopy | hochreiter1997 kerg2020
    delayed recall, transfer
denoise | recall 10 symbols scattered among blanks
    Jing et al. 2019; Kerg 2022, section 4.6.1 | mnemoscope.tasks:Denoise | jing2019 kerg2020 kerg2022thesis
    delayed recall
repeat-copy | repeat the vectors shown, over and over
    Karuvally et al. 2023, section 9 | mnemoscope.tasks:RepeatCopy | karuvally2023 | variable binding
compose-copy | build each new vector from one element of each of the last vectors
    Karuvally et al. 2023, section 10 | mnemoscope.tasks:ComposeCopy | karuvally2023 | variable binding
binding | continue the sequence that a signed selection makes of the vectors shown; rule T1 to T4, or your own
    Karuvally et al. 2023, section 6 | mnemoscope.tasks:VariableBinding | karuvally2023 | variable binding
bit-copy | recall a sequence of random bit vectors, of random length
    Graves et al. 2014, section 4.1 | mnemoscope.tasks:BitCopy | graves2014 | bits, external memory
matrix-copy | recall a sequence of random bit matrices, of random length
    Renanse et al. 2021, section 6.1 | mnemoscope.tasks:MatrixCopy | renanse2021 graves2014 | bits, external memory
bit-repeat-copy | recall a sequence of random bit vectors a given number of times, and mark the end
    Graves et al. 2014, section 4.2 | mnemoscope.tasks:BitRepeatCopy | graves2014 | bits, external memory
associative-recall | given one item of a list of bit vectors, recall the next
    Graves et al. 2014, section 4.3 | mnemoscope.tasks:AssociativeRecall | graves2014 | bits, external memory
matrix-recall | given one item of a list of bit matrices, recall the next
    Renanse et al. 2021, section 6.2 | mnemoscope.tasks:MatrixRecall | renanse2021 graves2014 | bits, external memory
key-value-recall | recall the values of many keys, shown in pairs before
    Arora et al. 2024 | mnemoscope.tasks:KeyValueRecall | arora2024 | associative memory
word-problem | the product of all elements of a group up to now: parity, cyclic, symmetric and alternating groups
    Merrill et al. 2024; Siems et al. 2025 | mnemoscope.tasks:WordProblem | merrill2024 siems2025 | state tracking
mqar | multi-query associative recall: the values of many keys, each asked for once among other tokens
    Arora et al. 2024 | mnemoscope.tasks:MultiQueryRecall | arora2024 | tokens, associative memory
parity | the parity of random bits at the last of them, tested on longer sequences
    Grazzi et al. 2025; Beck et al. 2024 | mnemoscope.tasks:Parity | grazzi2025 beck2024 | tokens, state tracking
modular-arithmetic | the value of an expression of digits, + - and *, modulo 5, tested on longer ones
    Grazzi et al. 2025; Beck et al. 2024 | mnemoscope.tasks:ModularArithmetic | grazzi2025 beck2024
    tokens, state tracking
bracket-arithmetic | the value of an expression with nested brackets, modulo 5, tested on longer ones
    Grazzi et al. 2025; Beck et al. 2024 | mnemoscope.tasks:BracketArithmetic | grazzi2025 beck2024
    tokens, state tracking
selective-copy | recall data tokens that are scattered among noise
    Gu & Dao 2024, section 4.1.1 | mnemoscope.tasks:SelectiveCopy | gu2024 | tokens, delayed recall
induction-heads | at the second trigger, recall the token that followed the first
    Gu & Dao 2024, section 4.1.2; Fu et al. 2023 | mnemoscope.tasks:InductionHeads | gu2024 fu2023
    tokens, associative memory
string-copy | copy a string of random length, letter by letter
    Jelassi et al. 2024 | mnemoscope.tasks:StringCopy | jelassi2024 | tokens, delayed recall
ngram-recall | given a few letters of a string, recall those that follow them
    Jelassi et al. 2024 | mnemoscope.tasks:NgramRecall | jelassi2024 | tokens, associative memory
mad-recall | recall the value of each key that returns, in a sequence of pairs
    Poli et al. 2024 | mnemoscope.tasks:MadRecall | poli2024 | tokens, associative memory
mad-noisy-recall | recall the value of each key that returns, in a sequence of pairs and noise
    Poli et al. 2024 | mnemoscope.tasks:MadNoisyRecall | poli2024 | tokens, associative memory
mad-fuzzy-recall | recall the value of each key that returns, with keys and values of one to three tokens
    Poli et al. 2024 | mnemoscope.tasks:MadFuzzyRecall | poli2024 | tokens, associative memory
mad-selective-copy | copy tokens that are scattered among blanks
    Poli et al. 2024 | mnemoscope.tasks:MadSelectiveCopy | poli2024 | tokens, delayed recall
mad-memorisation | learn the values of keys by heart, the same in all sequences
    Poli et al. 2024 | mnemoscope.tasks:MadMemorisation | poli2024 | tokens
mad-compression | decode a sequence of random tokens from the output at its last step
    Poli et al. 2024 | mnemoscope.tasks:MadCompression | poli2024 | tokens, delayed recall
smnist | classify a handwritten digit shown pixel by pixel
    LeCun et al. 1998; Le et al. 2015 | mnemoscope.tasks:SequentialMNIST | lecun1998 le2015 | classification, data
psmnist | classify a handwritten digit whose pixels are shown in a fixed random order
    LeCun et al. 1998; Le et al. 2015 | mnemoscope.tasks:PermutedMNIST | lecun1998 le2015 | classification, data
ptb | predict the next character of the Penn Treebank
    Marcus et al. 1993; Mikolov et al. 2012 | mnemoscope.tasks:PennTreebank | marcus1993 mikolov2012 | language, data
perceptual-decision | decide in which direction noisy dots move, and hold the choice over a delay
    Britten et al. 1992; Gold & Shadlen 2007 | mnemoscope.tasks:PerceptualDecision | britten1992 gold2007 song2016
    cognitive
context-decision | decide about motion or colour, whichever the context names
    Mante et al. 2013 | mnemoscope.tasks:ContextDecision | mante2013 | cognitive
parametric-memory | compare two frequencies across a delay
    Romo et al. 1999 | mnemoscope.tasks:ParametricMemory | romo1999 song2016 | cognitive, delayed recall
delayed-match | whether a test equals the sample shown before a delay
    Miller et al. 1996 | mnemoscope.tasks:DelayedMatch | miller1996 | cognitive, delayed recall
angle-memory | report the angle of a cue after a delay, as cosine and sine
    Funahashi et al. 1989 | mnemoscope.tasks:AngleMemory | funahashi1989 yang2019 | cognitive, delayed recall
ready-set-go | measure the interval between two pulses, and produce it or a multiple of it
    Jazayeri & Shadlen 2010; Remington et al. 2018 | mnemoscope.tasks:ReadySetGo | jazayeri2010 remington2018
    cognitive, timing
multi-task | twenty tasks of one network: responses, decisions and matches, one, several, or all interleaved
    Yang et al. 2019 | mnemoscope.tasks:MultiTask | yang2019 | cognitive, multi-task
environment | trials of a gymnasium or neurogym environment, by its id; its right actions are the targets
    Towers et al. 2024; Molano-Mazón et al. 2022 | mnemoscope.tasks:EnvironmentTask
    towers2024 molano2022 | environment
same-different | whether two shapes are the same
    Webb et al. 2021; Kerg 2022, 5.4.1 | mnemoscope.tasks.relational:SameDifferent | webb2021 kerg2022 kerg2022thesis
    relational
rmts | relational match-to-sample: which of two pairs has the relation (same or different) of the first pair
    Webb et al. 2021; Kerg 2022, 5.4.1 | mnemoscope.tasks.relational:RMTS | webb2021 kerg2022 kerg2022thesis
    relational
distribution-of-n | which shape is missing from a row shown before in another order; three shapes, or n
    Webb et al. 2021; Kerg 2022, 5.4.1 and C.4 | mnemoscope.tasks.relational:DistributionOfN
    webb2021 kerg2022 kerg2022thesis | relational
identity-rules | which shape completes a row by the rule (AAA, ABA or ABB) of the row before
    Webb et al. 2021; Kerg 2022, 5.4.1 | mnemoscope.tasks.relational:IdentityRules | webb2021 kerg2022 kerg2022thesis
    relational
rmts3 | match-to-sample with triplets, tested on relations absent from training
    Kerg 2022, 5.4.3 | mnemoscope.tasks.relational:RMTS3 | kerg2022 kerg2022thesis | relational
same-different-6 | whether two triplets are the same, tested on triplets absent from training
    Kerg 2022, 5.4.3 | mnemoscope.tasks.relational:SameDifferent6 | kerg2022 kerg2022thesis | relational
identity-rules-4 | which shape completes a row of four by the rule of the row before; tested on rules never trained
    Kerg 2022, 5.4.3 and C.3 | mnemoscope.tasks.relational:IdentityRules4 | kerg2022 kerg2022thesis | relational
comparison | which of two sizes of a shape is larger
    Kerg 2022, 7.2 | mnemoscope.tasks.relational:Comparison | kerg2022 kerg2022thesis | relational
relational-game | whether a relation, such as same, between or row matching, holds among coloured objects in a grid
    Shanahan et al. 2020; Kerg 2022, 5.4.2 | mnemoscope.tasks.relational:RelationalGame
    shanahan2020 kerg2022 kerg2022thesis | relational
"""

tasks = Registry("task", read_entries(TASKS))
