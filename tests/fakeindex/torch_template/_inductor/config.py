# mypy: ignore-errors
from .._config import install

install(
    __name__,
    {
        "compile_threads": 1,
        "coordinate_descent_tuning": False,
        "cpp.simdlen": None,
        "cpp.threads": -1,
        "cpp_wrapper": False,
        "debug": False,
        "enable_caching_generated_triton_templates": True,
        "epilogue_fusion": True,
        "fx_graph_cache": True,
        "force_disable_caches": False,
        "freezing": False,
        "keep_output_stride": True,
        "layout_optimization": True,
        "max_autotune": False,
        "max_autotune_gemm": False,
        "max_autotune_gemm_backends": "ATEN,TRITON,CPP",
        "max_autotune_pointwise": False,
        "triton.cudagraphs": False,
        "triton.unique_kernel_names": True,
        "triton.use_block_ptr": False,
    },
)
