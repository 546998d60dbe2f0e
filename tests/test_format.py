"""How Tensors print: the texts that PyTorch printed in the documents, to the character."""

import re

import numpy as np
import pytest

import qkv
from qkv.reproduce import golden

SEEN = golden("D2-00").about["printed"]
PRINTED = {
    "3-D, e-notation, lines broken": (SEEN["In[4]"][0], "D2-02", "src_embedding"),
    "3-D, one width, lines broken": (SEEN["In[4]"][1], "D2-02", "tgt_embedding"),
    "integers": (SEEN["In[3]"][0], "D2-02", "src_seq"),
    "1-D": (SEEN["In[6]"][0], "D2-05", "prob1_float32_run"),
    "1-D, e-notation": (SEEN["In[6]"][1], "D2-05", "prob2_float32_run"),
    "2-D, negative numbers": (SEEN["In[7]"][0], "D2-05", "jacobian1_float32_run"),
    "2-D, tiny numbers": (SEEN["In[7]"][1], "D2-05", "jacobian2_float32_run"),
    "whole numbers": (SEEN["In[12]"][2], "D2-07", "cross_matrix"),
    "columns of one": (SEEN["In[12]"][0], "D2-07", "valid_decoder"),
    "booleans": (SEEN["In[18]"][1], "D2-07", "decoder_mask"),
    "huge numbers": (SEEN["In[9]"][0], "D2-08", "enc_masked_score"),
    "3-D": (golden("D1-16").about["printed"], "D1-16", "float32_run"),
}


@pytest.mark.parametrize("case", PRINTED)
def test_prints_what_the_document_prints(case):
    text, group, name = PRINTED[case]
    assert repr(qkv.tensor(golden(group)[name])) == re.sub(r",\s*grad_fn=<\w+>", "", text)


def test_matrices_of_a_4d_tensor_are_apart_by_two_empty_lines():
    text = repr(qkv.tensor(np.arange(16.0, dtype="float32").reshape(2, 2, 2, 2)))
    assert text == (
        "tensor([[[[ 0.,  1.],\n          [ 2.,  3.]],\n\n         [[ 4.,  5.],\n          [ 6.,  7.]]],\n"
        "\n\n        [[[ 8.,  9.],\n          [10., 11.]],\n\n         [[12., 13.],\n          [14., 15.]]]])"
    )


def test_infinity_and_nan_widen_columns_but_not_in_pytorch():
    values = [1.0, np.inf, np.nan]
    assert repr(qkv.tensor(values)) == "tensor([ 1., inf, nan])"
    assert repr(qkv.torch.tensor(values)) == "tensor([1., inf, nan])"
