"""Errors in Chinese: the sentence of an error is found in a table of templates, and its parts are put into the translation.

Errors are raised in English wherever they are found, for logs and programs. Only what a person reads on the terminal is translated.
"""
# ruff: noqa: RUF001, RUF002 - Chinese punctuation

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from paralign.errors import one_line, plain_text
from paralign.report.language import current

if TYPE_CHECKING:
    from paralign.errors import ParalignError

#: English sentence, ``{}`` for each part that differs -> Chinese, ``{0}`` … for the parts
SENTENCES: dict[str, str] = {
    # files and folders
    "there is no such file or folder{}": "没有这个文件或文件夹{0}",
    "there is no such folder{}": "没有这个文件夹{0}",
    "there is no source file": "没有源文件",
    "the file is there already": "文件已存在",
    "the log is there already": "日志已存在",
    "the destination is there already": "目标已存在",
    "it is there already, and is not overwritten": "已存在，不会覆盖",
    "{} would be overwritten": "{0} 会被覆盖",
    "the folder of the destination is not there": "目标所在的文件夹不存在",
    "the destination is a folder": "目标是文件夹",
    "the destination is the source": "目标就是来源",
    "the destination cannot be used: {}": "目标不能使用：{0}",
    "the output folder cannot be made: {}": "无法建立输出文件夹：{0}",
    "{} cannot be written: {}": "无法写入 {0}：{1}",
    "{} is a folder": "{0} 是文件夹",
    "the memory does not suffice": "内存不足",
    # the command line
    "there is no option {}{}": "没有选项 {0}{1}",
    "there is no language {}": "没有语言 {0}",
    "there is no stage {}{}": "没有阶段 {0}{1}",
    "there is no {} here, and no folder or stage {}{}": "这里没有 {0}，也没有名为 {1} 的文件夹或阶段{2}",
    "no stage is named": "没有指定阶段",
    "no input is given": "没有给出输入",
    "no call of this name is known: {}": "没有这个名称的调用：{0}",
    "no call of PyTorch has this name: {}": "PyTorch 没有这个名称的调用：{0}",
    "several calls have the name {}": "有多个调用叫 {0}",
    "Paddle {} has a counterpart of {}: {}": "Paddle {0} 有 {1} 的对应 API：{2}",
    "--torch and --out belong to --issue, which is not given": "--torch 和 --out 用于 --issue，而没有给出 --issue",
    "--torch belongs to --issue, which is not given": "--torch 用于 --issue，而没有给出 --issue",
    "--fail-on does not know {}{}": "--fail-on 没有 {0}{1}",
    "--model needs --reference": "--model 需要 --reference",
    "--again needs --model": "--again 需要 --model",
    "--inputs needs --model": "--inputs 需要 --model",
    "--seconds must be above 0, not {}": "--seconds 必须大于 0，而不是 {0}",
    "--steps must be at least 8, not {}": "--steps 至少为 8，而不是 {0}",
    "--rounds must lie between 1 and 1000, not {}": "--rounds 必须在 1 到 1000 之间，而不是 {0}",
    "--sizes takes numbers above 0, not {}": "--sizes 取大于 0 的数，而不是 {0}",
    "--workers takes numbers from 0 to 256, not {}": "--workers 取 0 到 256 的数，而不是 {0}",
    # paralign.toml
    "unknown key {}{}": "未知的键 {0}{1}",
    "{} has no table [{}]": "{0} 没有表 [{1}]",
    "[{}] must be a table": "[{0}] 必须是表",
    "{} must be of type {}, not {}": "{0} 的类型必须是 {1}，而不是 {2}",
    "{} must be a text, not {}": "{0} 必须是文本，而不是 {1}",
    "{} must be a list of texts": "{0} 必须是文本列表",
    "{} must be at least {}": "{0} 至少为 {1}",
    "{} must not be negative": "{0} 不能为负",
    "{} must not be empty: leave it out for all of them": "{0} 不能为空：要全部时请省略",
    "{} is not a choice{}": "{0} 不是可选值{1}",
    "a split is named twice": "同一划分写了两次",
    "timeout must be a number of seconds above 0, not {}": "timeout 必须是大于 0 的秒数，而不是 {0}",
    "seed must lie between 0 and 2**32 - 1, not {}": "seed 必须在 0 到 2**32 - 1 之间，而不是 {0}",
    "seconds must not be negative, it is {}": "seconds 不能为负，现为 {0}",
    "there is no interpreter {}": "没有解释器 {0}",
    "there is no conda environment {}": "没有 conda 环境 {0}",
    "there is no adapter for framework {}{}": "没有框架 {0} 的适配器{1}",
    "the module of the {} is not there": "{0} 一侧的模块不存在",
    "the root of the {} is no folder{}": "{0} 一侧的 root 不是文件夹{1}",
    "the checkpoint of the {} is not there": "{0} 一侧的检查点不存在",
    "the file of rules is not there": "规则文件不存在",
    "the file of rules is there already": "规则文件已存在",
    "only a model that is streamed has a checkpoint": "只有流式模型才有 checkpoint",
    "no environment variable can be called {}": "环境变量不能叫 {0}",
    # inputs
    "neither a shape nor a file is given": "既没有给出形状，也没有给出文件",
    "the file of inputs is not there": "输入文件不存在",
    "a shape is a list of whole numbers": "形状是整数列表",
    "high ({}) must be above low ({})": "high（{0}）必须大于 low（{1}）",
    "unknown distribution {}": "未知的分布 {0}",
    "unknown dtype {}": "未知的 dtype {0}",
    "values from {} to {} do not fit into {}": "{0} 到 {1} 的值放不进 {2}",
    "no values can be drawn: {}": "无法生成数值：{0}",
    "std must not be negative, it is {}": "std 不能为负，现为 {0}",
    "seed must not be negative, it is {}": "seed 不能为负，现为 {0}",
    "{} must be finite, it is {}": "{0} 必须有限，现为 {1}",
    "there are no inputs": "没有输入",
    # reports and captures
    "there is no report{}": "没有报告{0}",
    "the report is no JSON: {}": "报告不是 JSON：{0}",
    "the report is damaged: {}": "报告已损坏：{0}",
    "the report has schema {}; this version reads {}": "报告的 schema 为 {0}，此版本读取 {1}",
    "this is no report of a check: it has no list of stages": "这不是检查报告：没有阶段列表",
    "the report has no stage {}{}": "报告中没有阶段 {0}{1}",
    "a capture cannot be compared with a file": "记录不能与文件比较",
    "there is no capture of operations{}": "没有算子记录{0}",
    "charts need matplotlib, which is not installed": "画图需要 matplotlib，尚未安装",
    "the page needs jinja2, which is not installed": "网页需要 jinja2，尚未安装",
    # checkpoints
    "the file is empty": "文件为空",
    "the file is HDF5": "文件是 HDF5",
    "the file is truncated or damaged: {}": "文件被截断或已损坏：{0}",
    "the file is no checkpoint of a known format, or its beginning is damaged": "文件不是已知格式的检查点，或开头已损坏",
    "the file is a pointer of git-lfs, the checkpoint itself was not fetched": "文件是 git-lfs 指针，检查点本身没有取回",
    "the file holds no tensors, only {}": "文件中没有张量，只有 {0}",
    "the folder holds no checkpoint of a usual name": "文件夹中没有常用名称的检查点",
    "the checkpoint holds no tensor {}": "检查点中没有张量 {0}",
    "the checkpoint holds {} already": "检查点中已有 {0}",
    "{} of {} shards are missing: {}": "{1} 个分片中缺少 {0} 个：{2}",
    "two tensors are called {}": "有两个张量叫 {0}",
    "two tensors would be called {}": "会有两个张量叫 {0}",
    "no format is known by the name {}": "没有名为 {0} 的格式",
    "{} is no size": "{0} 不是大小",
    # data sets
    "there is no manifest{}": "没有清单{0}",
    "the manifest is no JSON: {}": "清单不是 JSON：{0}",
    "this is no manifest of the format {}": "这不是 {0} 格式的清单",
    "the data set is no folder{}": "数据集不是文件夹{0}",
    "the list is not there": "列表不存在",
    "there are no samples of the form {}": "没有 {0} 形式的样本",
    "the small set would lie inside the data set": "小数据集会落在数据集里面",
    "this is no data set of a known form: neither images in folders, nor COCO or VOC annotations":
        "不是已知形式的数据集：既没有按文件夹存放的图像，也没有 COCO 或 VOC 标注",
    "{} lies outside the data set": "{0} 在数据集之外",
    # interpreters
    "the interpreter does not answer": "解释器没有回答",
    "this interpreter has no Paddle that can be imported": "这个解释器没有可导入的 Paddle",
    "this interpreter has no PyTorch that can be imported": "这个解释器没有可导入的 PyTorch",
    # ports
    "the destination lies in the source": "目标在来源之中",
    "the project would lie in the source": "项目会落在来源之中",
    "there is no module {}{}": "没有模块 {0}{1}",
    "the module has no {}{}": "模块没有 {0}{1}",
    "{} names no model": "{0} 没有指明模型",
    "{} is no expression": "{0} 不是表达式",
    "{} builds nothing": "{0} 没有构造任何东西",
    "no side has build_dataloader(split)": "两侧都没有 build_dataloader(split)",
    "the project draws neither inputs nor labels": "项目既不生成输入也不生成标签",
}  # fmt: skip

#: what a message says of a name that is near, and of the sides
_INSIDE = ((re.compile(r"; did you mean ('.*')\?"), r"；是否指 \1？"),)


def told(error: ParalignError) -> str:
    """An error as the terminal shows it, in the language that is spoken; a sentence that is not in the table stays English."""
    if current() != "zh":
        return str(error)
    lines = [translated(plain_text(error.what)).replace("\n", "\n  ")]
    if error.where:
        lines.append(f"  位置：{one_line(error.where)}")
    if error.hint:
        lines.append(f"  修正：{plain_text(error.hint)}")
    return "\n".join(lines)


def translated(sentence: str) -> str:
    """A sentence in Chinese; as it is where the table does not have it.

    >>> translated("there is no stage 'foward'; did you mean 'forward'?")
    "没有阶段 'foward'；是否指 'forward'？"
    """
    for pattern, chinese in _patterns():
        found = pattern.fullmatch(sentence)
        if found is not None:
            parts = [part or "" for part in found.groups()]
            for inside, other in _INSIDE:
                parts = [inside.sub(other, part) for part in parts]
            return chinese.format(*parts)
    return sentence


@cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    """The table's sentences as patterns, those with the most words of their own first: the most general cannot hide another."""
    ordered = sorted(SENTENCES, key=lambda each: -len(each.replace("{}", "")))
    return [(_pattern(each), SENTENCES[each]) for each in ordered]


def _pattern(sentence: str) -> re.Pattern[str]:
    """Parts in the middle are as short as can be; one at the end that begins after another part may be empty."""
    text = re.escape(sentence).replace(r"\{\}\{\}", r"('(?:[^'\\]|\\.)*'|\S+?)(.*)").replace(r"\{\}", "(.*?)")
    return re.compile(text, re.DOTALL)
