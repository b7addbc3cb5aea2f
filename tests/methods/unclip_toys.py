"""The real Stable unCLIP pipeline with tiny random weights."""

import json


def tiny_tokenizer(folder):
    from transformers import CLIPTokenizer

    words = ["a", "b", "a</w>", "ab</w>", "b</w>", "<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({word: number for number, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\na b</w>\n")
    return CLIPTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=16)


def tiny_pipeline(folder, width=32, seed=0):
    """Image side 32, embedding width 32; 1.5 million weights, all random."""
    import torch
    from diffusers import AutoencoderKL, DDIMScheduler, DDPMScheduler, StableUnCLIPImg2ImgPipeline, UNet2DConditionModel
    from diffusers.pipelines.stable_diffusion.stable_unclip_image_normalizer import StableUnCLIPImageNormalizer
    from transformers import (
        CLIPImageProcessor,
        CLIPTextConfig,
        CLIPTextModel,
        CLIPVisionConfig,
        CLIPVisionModelWithProjection,
    )

    torch.manual_seed(seed)
    sizes = {"hidden_size": 32, "projection_dim": width, "num_hidden_layers": 2, "num_attention_heads": 4}
    normalizer = StableUnCLIPImageNormalizer(embedding_dim=width)
    normalizer.mean.data.normal_()
    normalizer.std.data.uniform_(0.5, 2)
    pipeline = StableUnCLIPImg2ImgPipeline(
        feature_extractor=CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}),
        image_encoder=CLIPVisionModelWithProjection(
            CLIPVisionConfig(image_size=32, patch_size=8, intermediate_size=37, **sizes)
        ).eval(),
        image_normalizer=normalizer,
        image_noising_scheduler=DDPMScheduler(beta_schedule="squaredcos_cap_v2"),
        tokenizer=tiny_tokenizer(folder),
        text_encoder=CLIPTextModel(
            CLIPTextConfig(
                bos_token_id=5,
                eos_token_id=6,
                pad_token_id=6,
                intermediate_size=37,
                vocab_size=7,
                max_position_embeddings=16,
                **sizes,
            )
        ).eval(),
        unet=UNet2DConditionModel(
            sample_size=16,
            in_channels=4,
            out_channels=4,
            block_out_channels=(32, 64),
            layers_per_block=1,
            down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
            up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
            attention_head_dim=(2, 4),
            class_embed_type="projection",
            projection_class_embeddings_input_dim=2 * width,
            cross_attention_dim=32,
            use_linear_projection=True,
        ).eval(),
        scheduler=DDIMScheduler(
            beta_schedule="scaled_linear",
            beta_start=0.00085,
            beta_end=0.012,
            prediction_type="v_prediction",
            set_alpha_to_one=False,
            steps_offset=1,
        ),
        vae=AutoencoderKL(
            block_out_channels=(32, 64),
            down_block_types=("DownEncoderBlock2D",) * 2,
            up_block_types=("UpDecoderBlock2D",) * 2,
            latent_channels=4,
        ).eval(),
    )
    pipeline.set_progress_bar_config(disable=True)
    return pipeline
