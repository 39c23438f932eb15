"""The words of the page, in English and in Chinese."""

from __future__ import annotations

from paralign.model import ALIGNED, DIVERGED, ERROR, NOT_TESTED, UNDERPOWERED
from paralign.report.chinese import CHINESE

#: key -> (English, Chinese)
WORDS: dict[str, tuple[str, str]] = {
    "verdict": ("Verdict", "结论"),
    **{verdict: (verdict, CHINESE[verdict]) for verdict in (ALIGNED, DIVERGED, UNDERPOWERED, NOT_TESTED, ERROR)},
    "stages": ("What was tested, and how strongly", "检验了什么,强度如何"),
    "stage": ("stage", "阶段"),
    "guide": ("guide", "指南章节"),
    "ratio": ("error ÷ noise", "误差 ÷ 噪声"),
    "looked": ("looked at", "检查范围"),
    "method": ("judged by", "判定方法"),
    "first": ("The first wrong line", "第一处出错的代码"),
    "reference": ("reference", "参考实现"),
    "candidate": ("candidate", "复现实现"),
    "none": ("no counterpart found", "没有找到对应之处"),
    "evidence": ("evidence", "证据"),
    "proven": ("proven cause", "已证实的原因"),
    "suspected": ("suspected cause", "可能的原因"),
    "fix": ("fix", "修改方法"),
    "arguments": ("arguments that differ", "不同的参数"),
    "not run": ("not run", "未运行"),
    "points": ("Further points, perhaps of the same fault", "其他可疑之处(可能出自同一错误)"),
    "values": ("Compared values", "比较过的数值"),
    "search": ("search names and notes", "搜索名称与备注"),
    "shown": ("shown", "条已显示"),
    "key": ("value", "数值"),
    "error_": ("error", "误差"),
    "noise": ("noise", "噪声"),
    "shape": ("shape", "形状"),
    "dtype": ("dtype", "类型"),
    "how": ("matched by", "匹配方式"),
    "notes": ("notes", "备注"),
    "warnings": ("Warnings", "警告"),
    "failure": ("Failure", "失败"),
    "environment": ("Environment", "运行环境"),
    "again": ("To make this report again", "重新生成本报告"),
    "follows": ("may follow from", "可能由以下阶段引起"),
    "theme": ("light / dark", "浅色 / 深色"),
    "language": ("中文", "English"),
    "unjudged": ("not judged", "不参与判定"),
    "only": ("only what is not aligned", "只看不一致的"),
    "operation": ("operation", "算子"),
    "module": ("module", "模块"),
}
